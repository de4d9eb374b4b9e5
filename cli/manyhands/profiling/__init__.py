# SPDX-License-Identifier: BSD-3-Clause
"""The profile of a run: reading it, what it says, and how it is shown."""
