# SPDX-License-Identifier: BSD-3-Clause
"""Traces (MH_TRACE, docs/trace.md): reading them, sums over them, and what is written from them."""
