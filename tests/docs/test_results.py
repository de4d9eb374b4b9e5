# SPDX-License-Identifier: BSD-3-Clause
"""The page of results is current, and each figure and table of the papers has a row."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAPERS = DOCS / "results" / "papers"
sys.path[:0] = [str(DOCS), str(ROOT / "bench")]

import make_results  # noqa: E402
from manyhands_bench.cases import CASES  # noqa: E402
from manyhands_bench.emulated_cases import MAKERS  # noqa: E402

Row = dict[str, Any]
ROWS = {name: make_results.load(f"papers/{name}.json")["rows"] for name in make_results.PAPERS}
EACH = [pytest.param(row, id=f"{name} {row['figure']}") for name in ROWS for row in ROWS[name]]


def numbered(kind: str, last: int, chapter: str = "") -> set[str]:
    return {f"{kind} {chapter}{i}" for i in range(1, last + 1)}


FIGURES = {
    "cab-mpi": numbered("Figure", 15),
    "poster": numbered("Figure", 2),
    "task-collections": numbered("Figure", 10) | numbered("Table", 3),
    "workshare": numbered("Figure", 7),
    "dissertation": numbered("Figure", 2, "1.")
    | numbered("Figure", 15, "2.")
    | numbered("Figure", 4, "3.")
    | numbered("Table", 3, "3.")
    | numbered("Figure", 7, "4.")
    | numbered("Figure", 20, "5.")
    | numbered("Table", 3, "5."),
}


def test_page_is_what_its_script_writes() -> None:
    current = (DOCS / "results.md").read_text() == make_results.page()
    assert current, "run python docs/make_results.py"


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_and_table_has_a_row(name: str) -> None:
    names = [row["figure"] for row in ROWS[name]]
    assert len(names) == len(set(names))
    assert {re.sub(r"(?<=\d)[a-d]$|, (left|right)$", "", one) for one in names} == FIGURES[name]


def test_each_file_of_papers_is_on_the_page() -> None:
    files = {path.stem for path in PAPERS.glob("*.json")}
    assert files == {*make_results.PAPERS, "measurements"} == {*FIGURES, "measurements"}


@pytest.mark.parametrize("row", EACH)
def test_each_row_leads_to_a_measurement_or_says_that_it_is_missing(row: Row) -> None:
    measured = row["work"] in {"same", "scaled", "emulated"}
    assert measured == bool(row.get("ours"))
    assert measured == bool(row.get("why")) and (not measured or row["paper"])
    assert measured or row["missing"]
    assert row["work"] != "missing" or row["paper"]
    assert measured or re.search(r"\]\([\w./-]+", row["missing"])


@pytest.mark.parametrize("row", EACH)
def test_numbers_of_ours_are_read_and_not_typed(row: Row) -> None:
    for part in row.get("ours", []):
        places = re.findall(r"\{(\d+)\}", part["text"])
        assert [int(place) for place in places] == list(range(len(part["numbers"])))


def test_commands_of_rows_exist() -> None:
    commands = [row["again"] for rows in ROWS.values() for row in rows if "again" in row]
    cases = {case.name for case in CASES}
    named = {name for command in commands for name in re.findall(r"--only ([\w-]+)", command)}
    assert named and named <= cases | set(MAKERS)
    paths = {word for command in commands for word in command.split() if "/" in word}
    assert {
        path for path in paths - {"build/bin/mh-lci-structures"} if not (ROOT / path).exists()
    } == set()


def test_numbers_that_are_not_there_are_refused() -> None:
    measurement = make_results.load("papers/measurements.json")["threads"]
    with pytest.raises(SystemExit, match="does not say"):
        make_results.number(measurement, {"quote": "0.1 ns"})
    with pytest.raises(SystemExit, match="0 values"):
        make_results.number(measurement, {"row": "65", "column": 1})


def test_dates_and_machines_are_those_of_the_samples() -> None:
    measurement = make_results.load("papers/measurements.json")["sixteen-cores"]
    samples = json.loads((DOCS / "results" / measurement["samples"]).read_text())
    assert samples["date"].startswith("2026-11-26")
    assert make_results.when(measurement) == "26 Nov 2026"
    assert make_results.where(measurement) == "16 cores, Intel Xeon"
