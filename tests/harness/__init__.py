# SPDX-License-Identifier: BSD-3-Clause
"""Running real MPI programs plain and helped: compiling, launching, and what must not be left."""
