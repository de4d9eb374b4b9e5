# SPDX-License-Identifier: BSD-3-Clause
"""A running job as `mh top` shows it: finds jobs, reads them by mh-top, and draws the table."""
