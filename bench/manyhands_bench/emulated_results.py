# SPDX-License-Identifier: BSD-3-Clause
"""Reads the results of emulated nodes. A result is a dictionary, as in the JSON file, with a few
samples of one size at one dilation. Standard library only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median
from typing import Any

WHAT = "mh bench --emulate"
AGREES = 0.05  # largest relative change of a time at twice the dilation that counts as agreement
Result = dict[str, Any]


def as_text(report: dict[str, Any]) -> str:
    """The report as JSON with one line for each result."""
    whole = json.dumps({**report, "records": ["RECORDS"]}, indent=1)
    lines = ",\n  ".join(json.dumps(one) for one in report["records"])
    return whole.replace('"RECORDS"', lines) + "\n"


def time_of(result: Result) -> float:
    return median(result["emulated_ns"])


def firsts(results: list[Result]) -> list[Result]:
    """The results, without those that were measured again at twice the dilation."""
    found: dict[tuple[Any, ...], Result] = {}
    for one in results:
        kept = found.setdefault(_key(one), one)
        if one["dilation"] < kept["dilation"]:
            found[_key(one)] = one
    return list(found.values())


def _key(result: Result) -> tuple[Any, ...]:
    return (result["case"], result["label"], result["helpers"], result["bytes"])


@dataclass(frozen=True)
class Doubt:
    """A result whose time differs at twice the dilation."""

    result: Result
    change: float  # relative change of the time at twice the dilation


def doubts(results: list[Result]) -> tuple[list[Doubt], int]:
    """The results that depend on the dilation, and the number of results measured at two
    dilations.
    """
    by_key: dict[tuple[Any, ...], list[Result]] = {}
    for one in results:
        by_key.setdefault(_key(one), []).append(one)
    pairs = [sorted(two, key=lambda r: r["dilation"]) for two in by_key.values() if len(two) == 2]
    changes = [Doubt(low, time_of(high) / time_of(low) - 1) for low, high in pairs]
    return [doubt for doubt in changes if abs(doubt.change) > AGREES], len(pairs)
