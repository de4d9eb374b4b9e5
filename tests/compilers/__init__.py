# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the wrapper compilers `mhcc`, `mhc++` and `mhfort`."""
