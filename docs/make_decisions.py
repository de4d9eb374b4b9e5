# SPDX-License-Identifier: BSD-3-Clause
"""Writes decisions/README.md: the index of the decision records, from their titles.

Run it after a record was added, renamed or removed: python docs/make_decisions.py. Standard library
only. Tests check that the index is what this script writes.
"""

from __future__ import annotations

from pathlib import Path

RECORDS = Path(__file__).resolve().parent / "decisions"

HEAD = """# Decisions

<!-- Written by docs/make_decisions.py from the records' titles: change those, not this file. -->

A record says what was decided, which alternatives were rejected, and which number or fact rejected
them. A record has at most 30 lines; long series of numbers are in [results](../results).
Records marked *open* describe something that is not settled.

In a rejected alternative `a → b` is the number with the alternative, then the number with the
decision, unless the line says otherwise. "Busy machine" marks numbers taken while other programs
used the cores: only ratios of neighbouring runs count. Most numbers come from virtual machines with
two cores, whose host may move the two cores near each other or far apart.

To add a record, copy the shape of any other one: status with date, context, decision, rejected
alternatives each with its number, consequences and limits. Then run the script.
"""

# The folders in the order of the page, each with the subject of its records.
ROOMS = {
    "interposer": "in front of the MPI library: exports, start, calls that pass through",
    "rendezvous": "how a large message within a node travels",
    "steal": "jobs, chunks and claims",
    "memory": "the segment, and ways to reach another rank's memory",
    "heap": "the shared heap",
    "pipelines": "scattered data within a node",
    "internode": "scattered data between nodes",
    "layout": "flattened datatypes, packing loops",
    "collective": "arrival barriers and blocking collectives",
    "wait": "the wait loop",
    "profile": "time in MPI, by call and cause",
    "threads": "many waiting threads in one rank",
    "lend": "lending a core",
    "openmp": "shared loops",
    "rma": "one-sided operations",
    "lci": "messages of light tasks",
    "tasks": "task collections",
    "build": "building and testing",
}


def title(record: Path) -> str:
    return record.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def line(record: Path) -> str:
    is_open = "**Status:** open" in record.read_text(encoding="utf-8")
    mark = " *(open)*" if is_open else ""
    return f"* [{title(record)}]({record.relative_to(RECORDS)}){mark}\n"


def page() -> str:
    folders = {path.name for path in RECORDS.iterdir() if path.is_dir()}
    if folders != set(ROOMS):
        raise SystemExit(f"ROOMS of {__file__} and docs/decisions: {folders ^ set(ROOMS)}")
    text = HEAD
    for room, subject in ROOMS.items():
        records = sorted((RECORDS / room).glob("*.md"), key=title)
        text += f"\n## {room}: {subject}\n\n" + "".join(line(record) for record in records)
    return text


if __name__ == "__main__":
    (RECORDS / "README.md").write_text(page(), encoding="utf-8")
