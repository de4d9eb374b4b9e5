# SPDX-License-Identifier: BSD-3-Clause
"""What `mh bench` is made of: the MPI builds, the cases, launching, statistics, tables, plot."""
