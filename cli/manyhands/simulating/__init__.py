# SPDX-License-Identifier: BSD-3-Clause
"""Presents the output of mh-simulate: tables, CSV, plots, and the paper's numbers beside them."""
