# SPDX-License-Identifier: BSD-3-Clause
"""The lines of mh-simulate, and the CSV made from them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]
NOT_IN_TABLE = ("kind", "utilization")


def iterations(lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if line["kind"] == "iteration"]


def balancers(lines: Iterable[Line]) -> list[Line]:
    """The lines of the table; a balancer between two iterations has no period."""
    return [line for line in lines if line["kind"] == "balancer" and line["period"]]


def best(lines: list[Line]) -> float:
    """The paper's reference: the best efficiency of any scheme at any number of cores."""
    return max(line["efficiency"] for line in lines)


def write_csv(file: Path, lines: list[Line]) -> None:
    """A row per line, a column per field."""
    fields = [key for key in lines[0] if key not in NOT_IN_TABLE]
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, fields, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)


def write_utilization(file: Path, lines: list[Line]) -> None:
    """A row per interval: a two-hundredth of the ideal time of its iteration."""
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("scheme", "cores", "iteration", "time_s", "utilization"))
        for line in lines:
            for part, share in enumerate(line["utilization"]):
                time = line["ideal_s"] * part / PARTS
                writer.writerow(
                    (line["scheme"], line["cores"], line["iteration"], f"{time:.4f}", share)
                )


PARTS = 200  # of the ideal time: as in simulation.cpp
