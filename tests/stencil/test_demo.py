# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh demo`: sizes, conclusions from numbers, and a short demo of plain against plain.

No test here depends on time.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
import typer
from harness import leftovers
from manyhands.commands import demo
from manyhands.demo import needs, play, problem, show
from manyhands.demo.findings import Did, Finding, Ratio, add_up, ratio, sentence
from manyhands.demo.mpi import NoMpi, choose
from manyhands.demo.runs import Result, Setup
from manyhands_bench.mpis import find_builds
from rich.console import Console
from typer.testing import CliRunner

CHECKOUT = Path(__file__).resolve().parents[2]
BUILDS = find_builds(CHECKOUT)
APP = typer.Typer()
APP.command()(demo.demo)
NOT_ACTIVE = Did(0, 0, 0, 0, 0.0, 0, "")
ACTIVE = Did(100, 100 << 20, 60 << 20, 40 << 20, 0.5, 0, "")


def finding(speedup: Ratio, did: Did | None = ACTIVE, identical: bool = True) -> Finding:
    plain = {"seconds": 2.0, "compute_s": 1.4, "pack_s": 0.2, "mpi_s": 0.4, "wait_s": 0.1}
    helped = {**plain, "mpi_s": 0.2}
    return Finding(
        case=problem.CASES[0],
        ranks=2,
        steps=100,
        message_bytes=4 << 20,
        bytes_per_step=8 << 20,
        plain=plain,
        helped=helped,
        speedup=speedup,
        communication=Ratio(2.0, 1.9, 2.1),
        rounds=12,
        identical=identical,
        did=did,
        one_gb_per_s=10.0,
        together_gb_per_s=20.0,
    )


def test_a_gain_is_claimed_when_its_whole_range_is_one() -> None:
    text = sentence(finding(Ratio(1.08, 1.05, 1.1)))
    assert text.startswith(
        "Help made the program 8.0 % faster (5.0 % to 10 %). Communication took 20 %"
    )
    assert "50 % shorter" in text


@pytest.mark.parametrize("speedup", [Ratio(1.08, 0.98, 1.2), Ratio(1.005, 1.001, 1.01)])
def test_noise_is_called_noise(speedup: Ratio) -> None:
    assert sentence(finding(speedup)).startswith("No difference beyond the noise")


def test_a_gain_of_unsure_size_is_said_with_its_range() -> None:
    assert "13 % faster (6.0 % to 39 %)" in sentence(finding(Ratio(1.13, 1.06, 1.39)))
    assert "No difference" in sentence(finding(Ratio(1.13, 0.99, 1.39)))


def test_a_loss_is_said_to_be_one() -> None:
    text = sentence(finding(Ratio(0.9, 0.88, 0.93)))
    assert text.startswith("Help made the program 10 % slower (7.0 % to 12 %).")


def test_too_few_rounds_claim_nothing() -> None:
    few = replace(finding(Ratio(2.0, 1.9, 2.1)), rounds=2)
    assert "too few" in sentence(few)


@pytest.mark.parametrize(
    ("did", "reason"),
    [
        (None, "wrote no summary"),
        (NOT_ACTIVE, "copied no message"),
        (replace(NOT_ACTIVE, why_not="CMA is refused"), "did not help: CMA is refused"),
        (ACTIVE, "20 % of the plain run, with at least 5.0 % of the run spent waiting"),
    ],
)
def test_no_gain_comes_with_its_reason(did: Did | None, reason: str) -> None:
    assert reason in sentence(finding(Ratio(1.0, 0.99, 1.01), did))


def test_a_gain_of_communication_alone_is_said_where_the_whole_is_noise() -> None:
    text = sentence(finding(Ratio(1.05, 0.96, 1.45)))
    assert text.startswith("No difference beyond the noise") and "50 % shorter" in text
    unsure = replace(finding(Ratio(1.05, 0.96, 1.45)), communication=Ratio(1.4, 0.99, 2.7))
    assert "shorter with help" not in sentence(unsure)


def test_different_results_outweigh_any_gain() -> None:
    assert "DIFFER" in sentence(finding(Ratio(2.0, 1.9, 2.1), identical=False))


def made_up(seconds: float, mpi: float, checksum: str) -> Result:
    rank = {"compute_s": 0.1, "pack_s": 0.0, "mpi_s": mpi, "wait_s": 0.0}
    times = {
        "ranks": 2,
        "measured_steps": 10,
        "largest_message_bytes": 8,
        "bytes_sent_per_step": 16,
        "seconds": seconds,
        "memcpy": {"one_gb_per_s": 1.0, "together_gb_per_s": 2.0},
        "times": [rank, {**rank, "mpi_s": mpi + 0.2}],
    }
    return Result(times, checksum, None, [])


def test_ratios_pair_runs_of_the_same_round() -> None:
    plain = [made_up(s, 0.4, "a") for s in (1.0, 2.0, 4.0)]
    helped = [made_up(s, 0.2, "a") for s in (0.5, 1.0, 2.0)]
    found = add_up(problem.CASES[0], plain, helped)
    assert found.speedup == Ratio(2.0, 2.0, 2.0)
    assert found.plain["mpi_s"] == pytest.approx(0.5)
    assert found.identical
    assert not add_up(problem.CASES[0], plain, [*helped[:2], made_up(2.0, 0.2, "b")]).identical


def test_one_disturbed_round_of_twelve_does_not_widen_the_range() -> None:
    times = [1.0 + i / 100 for i in range(12)]
    calm = ratio([1.0] * 12, times)
    assert ratio([1.0] * 12, [*times[:11], 5.0]) == calm


# --- sizes of the demo's problem --------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 8, 12, 36, 64, 128])
def test_halo_is_a_quarter_of_the_cells_and_messages_are_megabytes(ranks: int) -> None:
    grid = problem.choose(ranks)
    processes = problem.process_grid(ranks)
    neighbours = [2 * (p - 1) / p for p in processes]
    planes = sum(f / n for f, n in zip(neighbours, grid.cells, strict=True))
    assert 0.2 <= planes <= 0.3
    volume = grid.cells[0] * grid.cells[1] * grid.cells[2]
    for n, p in zip(grid.cells, processes, strict=True):
        assert p == 1 or volume // n * grid.variables * 8 >= 3 << 20
    assert grid.bytes_of_a_rank() < 128 << 20


@pytest.mark.parametrize("ranks", [2, 4, 6, 8])
def test_process_grid_is_the_one_of_mpi(any_stencil, tmp_path: Path, ranks: int) -> None:
    file = tmp_path / "times.json"
    done = any_stencil.run(ranks, "--nx", 2, "--ny", 2, "--nz", 2, "--steps", 1, "--json", file)
    assert done.returncode == 0, done.stderr
    assert tuple(json.loads(file.read_text())["processes"]) == problem.process_grid(ranks)


def steps_of_a_run(monkeypatch: pytest.MonkeyPatch, a_step: float, seconds: float) -> int:
    """Returns the steps of a run after a trial with `a_step` seconds for each step."""
    counts: list[int] = []

    def run(_: play.Play, __: problem.Case, count: int, *___: object) -> Result:
        counts.append(count)
        return made_up(a_step * count, 0.4, "a")

    monkeypatch.setattr(play.Play, "run", run)
    wish = play.Wish(None, None, 1, seconds, None)
    with show.Steps(show.console(), 3) as steps:
        a_play = play.Play(cast(Setup, None), problem.choose(2), wish)
        a_play.case(problem.CASES[0], math.inf, steps)
    return counts[-1]


# --- what `make demo` builds --------------------------------------------------------------------

WANTED = {
    "mpich4": ["manyhands-mpich"],
    "mpich5": ["manyhands-mpich"],
    "abi": ["manyhands-abi"],
    "openmpi4": ["manyhands-openmpi"],
    "openmpi5": ["manyhands-openmpi"],
}


@pytest.mark.parametrize("name", BUILDS)
def test_an_mpi_needs_the_variant_of_its_abi(name: str) -> None:
    assert list(needs.variants(BUILDS[name])) == WANTED[name]


def test_an_mpi_of_unknown_kind_needs_all_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyhands.demo.mpi.find_builds", lambda _: {})
    monkeypatch.setenv("PATH", "/nowhere")
    assert needs.targets() == (*needs.COMMON, *needs.VARIANTS)


def test_the_demo_builds_neither_programs_nor_other_libraries() -> None:
    command = ["ninja", "-C", str(CHECKOUT / "build"), "-t", "inputs", *needs.COMMON]
    command += list(needs.variants(BUILDS["mpich5"]))
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "mh_core.dir" in listed
    others = ("libs/", "bench/", "tests/", "manyhands-openmpi", "manyhands-abi", "mh-engine")
    assert [line for line in listed.splitlines() if line.startswith(others)] == []


# --- the command `mh demo` --------------------------------------------------------------------


def test_an_mpi_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoMpi, match="names no prefix, no mpicc"):
        choose(str(tmp_path / "nothing"))
    lonely = tmp_path / "mpicc"
    lonely.write_text("#!/bin/sh\n")
    lonely.chmod(0o755)
    with pytest.raises(NoMpi, match="there is no mpiexec beside"):
        choose(str(lonely))


def test_without_any_mpi_the_user_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyhands.demo.mpi.find_builds", lambda _: {})
    monkeypatch.setenv("PATH", "/nowhere")
    result = CliRunner().invoke(APP, ["--control"])
    assert result.exit_code == 2


def test_results_that_could_not_be_written_are_refused_at_once() -> None:
    result = CliRunner().invoke(APP, ["--control", "--json", "/nowhere/at/all.json"])
    assert result.exit_code == 2


def test_different_results_make_the_command_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "demonstrate", lambda *_: {"identical": False})
    assert CliRunner().invoke(APP, ["--control"]).exit_code == 1


def test_the_table_fits_in_its_columns() -> None:
    out = Console(width=show.COLUMNS, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    out.print(show.table(finding(Ratio(1.08, 1.05, 1.1)), ("plain", "helped")))
    text = out.export_text()
    assert max(map(len, text.splitlines())) <= show.COLUMNS
    assert "waiting, at least" in text and "1.08x (1.05-1.10)" in text


@pytest.mark.skipif(not BUILDS, reason="no MPI here")
def test_plain_against_plain_runs_all_cases_with_equal_results(tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    name = next(iter(BUILDS))
    words = ["-n", "2", "--control", "--mpi", name, "--rounds", "1", "--seconds", "0.01"]
    result = CliRunner().invoke(APP, [*words, "--json", str(file)])
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    assert report["identical"] and report["compared_byte_by_byte"]
    assert [case["case"]["name"] for case in report["cases"]] == ["packed", "heap", "late", "types"]
    assert all(case["plain"]["mpi_s"] > 0 for case in report["cases"])
    assert "Results are identical" in result.output


@pytest.mark.parametrize(("a_step", "steps"), [(0.01, 50), (1e3, 20), (0.0, 1000)])
def test_a_run_has_the_steps_that_fill_its_time(
    monkeypatch: pytest.MonkeyPatch, a_step: float, steps: int
) -> None:
    assert steps_of_a_run(monkeypatch, a_step, 0.5) == steps


def test_endless_seconds_are_cut_to_the_most_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert steps_of_a_run(monkeypatch, 0.01, float("inf")) == play.MOST_STEPS


@pytest.mark.skipif(not BUILDS, reason="no MPI here")
def test_a_demo_that_is_told_to_end_leaves_no_ranks() -> None:
    command = [sys.executable, "-m", "manyhands.main", "demo", "-n", "2", "--control"]
    command += ["--mpi", next(iter(BUILDS)), "--seconds", "60"]
    mark = uuid.uuid4().hex
    demo_process = subprocess.Popen(command, env={**os.environ, leftovers.MARK: mark})
    try:
        leftovers.ranks(mark, "stencil", 2)
        demo_process.terminate()
        assert demo_process.wait(timeout=30) == 128 + signal.SIGTERM
        assert not leftovers.surviving(mark)
    finally:
        leftovers.end_processes(mark)
        demo_process.wait()
