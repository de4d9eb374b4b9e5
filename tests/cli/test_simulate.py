# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh simulate`: the real simulator on small machines, its CSV and tables, and a simulator
that is missing.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import typer
from manyhands.commands import simulate
from manyhands.simulating import paper
from typer.testing import CliRunner

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM = CHECKOUT / "build" / "bin" / "mh-simulate"
RUNNER = CliRunner()
APP = typer.Typer()
APP.command()(simulate.simulate)
SMALL = ["--option", "tasks=4000", "--option", "work=2000", "--cores", "96"]


def rows(file: Path) -> list[dict[str, str]]:
    with file.open() as text:
        return list(csv.DictReader(text))


def run(folder: Path, *arguments: str) -> str:
    result = RUNNER.invoke(
        APP, ["--program", str(PROGRAM), "--output", str(folder), *SMALL, *arguments]
    )
    assert result.exit_code == 0, result.output
    return result.output


def test_iterations_are_written_and_retention_needs_fewer_steals(tmp_path: Path) -> None:
    output = run(tmp_path, "--scheme", "retain", "--scheme", "steal", "--iterations", "3")
    found = {(row["scheme"], row["iteration"]): row for row in rows(tmp_path / "iterations.csv")}
    assert len(found) == 6
    assert {row["run"] for row in found.values()} == {found["retain", "1"]["run"]}
    assert float(found["retain", "3"]["steals"]) < float(found["steal", "3"]["steals"])
    assert float(found["retain", "3"]["efficiency"]) > float(found["retain", "1"]["efficiency"])
    assert "retain" in output


def test_utilization_adds_up_to_the_work(tmp_path: Path) -> None:
    run(tmp_path, "--iterations", "1")
    (row,) = rows(tmp_path / "iterations.csv")
    parts = [float(part["utilization"]) for part in rows(tmp_path / "utilization.csv")]
    assert all(0 <= part <= 1 for part in parts)
    # The simulator cuts the ideal time into 200 intervals and writes the utilization of the cores
    # in each. Without idle time, the work would fill exactly 200 intervals.
    assert sum(parts) / 200 == pytest.approx(1, abs=0.02)
    assert len(parts) / 200 == pytest.approx(
        float(row["last_task_s"]) / float(row["ideal_s"]), abs=0.03
    )


@pytest.mark.parametrize("scheme", ["plb-central", "plb-tree"])
def test_a_balancer_leaves_nothing_to_steal(tmp_path: Path, scheme: str) -> None:
    run(tmp_path, "--scheme", scheme, "--iterations", "2")
    first, second = rows(tmp_path / "iterations.csv")
    assert float(first["attempts"]) > 0
    assert float(second["attempts"]) == 0
    assert float(second["efficiency"]) > 0.9


def test_balancers_are_compared(tmp_path: Path) -> None:
    output = run(tmp_path, "--balancers")
    table = rows(tmp_path / "balancers.csv")
    assert len(table) == 20
    assert {row["balancer"] for row in table} == {"central", "tree"}
    assert "cheaper" in output


def test_a_misspelt_scheme_is_a_usage_error(tmp_path: Path) -> None:
    arguments = ["--program", str(PROGRAM), "--output", str(tmp_path), "--scheme", "retian"]
    assert RUNNER.invoke(APP, arguments).exit_code == 2


def test_a_simulator_that_is_not_there_is_named(tmp_path: Path) -> None:
    arguments = ["--program", str(tmp_path / "none"), "--output", str(tmp_path)]
    assert RUNNER.invoke(APP, arguments).exit_code == 1


def test_a_folder_that_cannot_be_made_is_refused_before_the_simulation(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "simulated"
    result = RUNNER.invoke(APP, ["--program", str(tmp_path / "none"), "--output", str(folder)])
    assert f"cannot write {folder}: {tmp_path / 'file'} is not a directory" in result.stderr


def test_the_papers_table_is_complete() -> None:
    for cores in paper.CORES:
        for n, m in ((1, 1), (2, 8), (4, 4), (8, 2)):
            assert "/" in (paper.seconds(n, m, cores) or "")
            assert "/" in (paper.over_ideal(n, m, cores) or "")
    assert paper.seconds(4, 4, 38_400) == "37.0/0.65"
    assert paper.seconds(4, 4, 100) is None
