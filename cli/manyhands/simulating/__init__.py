# SPDX-License-Identifier: BSD-3-Clause
"""What `mh simulate` makes of the lines of mh-simulate: tables, CSV, plots, the paper's numbers."""
