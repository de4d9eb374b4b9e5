# SPDX-License-Identifier: BSD-3-Clause
"""Reads traces (MH_TRACE, docs/trace.md), sums their events, writes reports and other formats."""
