# SPDX-License-Identifier: BSD-3-Clause
"""Types of arguments of the benchmark scripts, for argparse."""

from __future__ import annotations

import argparse


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"takes a number of at least 1, not {text!r}")
    return int(text)
