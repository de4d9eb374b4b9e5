# SPDX-License-Identifier: BSD-3-Clause
"""The lines that mh-simulate prints, and the CSV files made from them."""

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
    """The lines for the table of balancers. A balancer that runs between two iterations has no
    period and is left out.
    """
    return [line for line in lines if line["kind"] == "balancer" and line["period"]]


def best(lines: list[Line]) -> float:
    """The reference of the paper: the best efficiency of any scheme at any number of cores."""
    return max(line["efficiency"] for line in lines)


def write_csv(file: Path, lines: list[Line]) -> None:
    """Writes a row for each line and a column for each field."""
    fields = [key for key in lines[0] if key not in NOT_IN_TABLE]
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, fields, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)


def write_utilization(file: Path, lines: list[Line]) -> None:
    """Writes a row for each interval of an iteration. An interval is 1/PARTS of the ideal time."""
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("scheme", "cores", "iteration", "time_s", "utilization"))
        for line in lines:
            for part, share in enumerate(line["utilization"]):
                time = line["ideal_s"] * part / PARTS
                writer.writerow(
                    (line["scheme"], line["cores"], line["iteration"], f"{time:.4f}", share)
                )


PARTS = 200  # intervals of the ideal time: as in simulation.cpp
