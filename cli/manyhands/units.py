# SPDX-License-Identifier: BSD-3-Clause
"""Numbers with units in the form of the summary of a run: powers of 1000, three digits."""

from __future__ import annotations


def size_text(size: float) -> str:
    """1234567 -> '1.23 MB'."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def time_text(seconds: float) -> str:
    """4000 -> '1 h 6 min'."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
