# SPDX-License-Identifier: BSD-3-Clause
"""The parts of `mh top`: find running MPI jobs, read one through the program mh-top, draw its
table.
"""
