# SPDX-License-Identifier: BSD-3-Clause
"""Reads the profile of a run, derives advice, and shows both."""
