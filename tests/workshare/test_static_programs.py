# SPDX-License-Identifier: BSD-3-Clause
"""Tests programs whose loops are static: one result in every build and division, plain and helped.

The programs check their own results: the energy of the gas, the solution of the equations.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from harness.launch import Arm, run
from manyhands_bench.mpis import MpiBuild
from workshare_builds import Programs

SIZE = ["--nx", 6, "--ny", 7, "--nz", 8]
PROGRAMS = {
    "hydrodynamics": [*SIZE, "--steps", 20],
    "conjugate_gradients": [*SIZE, "--iterations", 30],
}
WAYS = [("plain", 1, 1, 0), ("plain", 2, 1, 50), ("plain", 3, 1, 70), ("openmp", 1, 2, 0)]


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_the_result_is_the_same_bit_for_bit_however_it_is_divided(
    any_programs: Programs, name: str
) -> None:
    seen = []
    for variant, ranks, threads, imbalance in WAYS:
        words = [*PROGRAMS[name], "--imbalance", imbalance]
        report = any_programs.report(f"{name}-{variant}", ranks, *words, threads=threads)
        assert (report["program"], report["ranks"], report["threads"]) == (name, ranks, threads)
        seen.append((report["hash"], report["steps"]))
    assert len(set(seen)) == 1


def work_of(report: dict[str, Any]) -> list[float]:
    return [rank["work"] for rank in report["times"]]


def test_imbalance_repeats_the_work_of_the_last_rank(any_programs: Programs) -> None:
    words = [*PROGRAMS["hydrodynamics"], "--imbalance", "0,50,200", "--repeat", 2]
    runs = any_programs.report("hydrodynamics-plain", 2, *words)["runs"]
    assert [work_of(run) for run in runs] == [[168, 168], [168, 252], [168, 504]] * 2
    assert [run["reached_imbalance"] for run in runs] == [0, 20, 50] * 2
    assert len({run["hash"] for run in runs}) == 1


def test_imbalance_gives_the_last_rank_more_points(any_programs: Programs) -> None:
    words = [*PROGRAMS["conjugate_gradients"], "--imbalance", "0,50"]
    runs = any_programs.report("conjugate_gradients-plain", 2, *words)["runs"]
    assert [work_of(run) for run in runs] == [[4 * 56, 5 * 56], [2 * 56, 7 * 56]]


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_the_ideal_is_the_wall_time_without_the_longest_ranks_excess(
    any_programs: Programs, name: str
) -> None:
    report = any_programs.report(f"{name}-plain", 2, *PROGRAMS[name], "--imbalance", 50)
    loops = [rank["loops_s"] for rank in report["times"]]
    assert min(loops) > 0 and max(loops) <= report["total_s"]
    excess = max(loops) - sum(loops) / 2
    assert report["ideal_s"] == pytest.approx(report["total_s"] - excess)


def test_a_solution_that_is_not_found_is_wrong(any_programs: Programs) -> None:
    done = any_programs.run("conjugate_gradients-plain", 2, *SIZE, "--iterations", 3)
    assert done.returncode == 1
    assert done.stderr.count("conjugate_gradients: ") == 1
    assert "the result is WRONG: its error is inf" in done.stderr


STATIC = {"MH_OPENMP": "static", "OMP_NUM_THREADS": "16"}
HELPED = {f"{name}-openmp": words for name, words in PROGRAMS.items()} | {
    "finite_elements-static": ["--nx", 6, "--ny", 6, "--nz", 8]
}


@pytest.mark.under("mpich4")
@pytest.mark.parametrize("name", list(HELPED))
def test_static_loops_by_virtual_threads_keep_every_bit(
    mpi: MpiBuild, helped: Arm, compiled: Callable[[str], Programs], name: str
) -> None:
    programs = compiled(mpi.name)
    words = [*HELPED[name], "--imbalance", "0,50", "--json", "-"]
    expected = programs.report(name, 2, *words[:-2])["runs"]
    command = [str(programs.program(name)), *map(str, words)]
    done = run(mpi, helped, 2, command, STATIC)
    done.expect()
    found = json.loads(done.out)["runs"]
    assert {one["threads"] for one in found} == {16}
    assert [one["hash"] for one in found] == [one["hash"] for one in expected]
    assert done.summary is not None
    loops = done.summary["total"]["loops"]
    assert loops["regions_static"] == loops["regions_shared"] > 0, loops
