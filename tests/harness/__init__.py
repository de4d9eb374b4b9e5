# SPDX-License-Identifier: BSD-3-Clause
"""Runs MPI programs plain and helped: compilation, launch, and the check for leftovers."""
