# SPDX-License-Identifier: BSD-3-Clause
"""The parts of `mh bench`: the MPI builds, the cases, launching, statistics, tables, pictures."""
