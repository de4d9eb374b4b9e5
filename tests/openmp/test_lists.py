# SPDX-License-Identifier: BSD-3-Clause
"""Tests lists of regions to share and not to share, and the report about regions that are not
shared.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness.launch import Arm, Run, run
from manyhands_bench.mpis import MpiBuild

from openmp.compile import compiled_openmp

SOURCE = Path(__file__).parent / "lists.c"
FEW = ["40"]
UNTIL_JOINED = ["3000", "stop"]
COMPILERS = pytest.mark.parametrize("compiler", ["gcc", "clang-14"])


def lists(mpi: MpiBuild, arm: Arm, program: Path, times: list[str], **settings: str) -> Run:
    env = {"MH_OPENMP": "1", "OMP_NUM_THREADS": "1", **settings}
    return run(mpi, arm, 2, [str(program), *times], env, 60)


def summary(done: Run) -> dict[str, Any]:
    assert done.summary is not None, done.told()
    return done.summary


def left_out(done: Run) -> dict[str, dict[str, Any]]:
    return {region["region"]: region for region in summary(done)["not_shared"]}


@pytest.mark.under("mpich4")
@COMPILERS
@pytest.mark.parametrize("debug", ["-g", "-g0"])
def test_what_is_excluded_stays_alone(
    mpi: MpiBuild, helped: Arm, compiler: str, debug: str
) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", SOURCE, debug)
    done = lists(mpi, helped, program, FEW, MH_OPENMP_EXCLUDE="handed_*,typo", MH_SUMMARY="1")
    done.expect("case lists ok alone")
    found = left_out(done)
    assert found.keys() == {"handed_out", "dealt_out"}
    assert found["handed_out"]["reason"] == "by_user"
    assert found["dealt_out"]["reason"] == "no_loop"
    assert found["dealt_out"]["time_s"] > 0
    assert "schedule(runtime)" in found["dealt_out"]["advice"]
    has_line = compiler == "clang-14" and debug == "-g"
    assert found["dealt_out"]["source"].startswith("lists.c:" if has_line else "")
    assert bool(found["dealt_out"]["source"]) == has_line
    assert summary(done)["no_such_region"] == ["typo"]
    assert "manyhands: no such region typo" in done.err


@pytest.mark.under("mpich4", "openmpi4")
@COMPILERS
def test_what_is_named_is_shared_and_nothing_else(
    mpi: MpiBuild, helped: Arm, compiler: str
) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", SOURCE)
    done = lists(mpi, helped, program, UNTIL_JOINED, MH_OPENMP_ONLY="handed_out")
    done.expect("case lists ok joined")
    assert left_out(done)["dealt_out"]["reason"] == "by_user"
    other = lists(mpi, helped, program, FEW, MH_OPENMP_ONLY="*:dealt_out")
    other.expect("case lists ok alone")
    assert left_out(other)["handed_out"]["reason"] == "by_user"


@pytest.mark.under("mpich4")
@COMPILERS
def test_a_stripped_region_is_named_by_its_place(mpi: MpiBuild, helped: Arm, compiler: str) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", SOURCE, "-g0")
    stripped = program.with_name(program.name + "-stripped")
    subprocess.run(["strip", "-o", str(stripped), str(program)], check=True)
    places = list(left_out(lists(mpi, helped, stripped, FEW, MH_OPENMP_EXCLUDE="*")))
    assert [place.startswith(f"{stripped.name}+0x") for place in places] == [True, True]
    shared = []
    for place in places:
        done = lists(mpi, helped, stripped, FEW, MH_OPENMP_EXCLUDE=place)
        assert left_out(done)[place]["reason"] == "by_user"
        assert not summary(done)["no_such_region"]
        shared.append(summary(done)["total"]["loops"]["regions_shared"])
    assert sorted(shared) == [0, 1], "the one that can be shared was excluded once"


@pytest.mark.under("mpich4")
def test_a_bad_list_is_said_and_ignored(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled_openmp(mpi, "gcc", "-O2", SOURCE)
    done = lists(mpi, helped, program, UNTIL_JOINED, MH_OPENMP_EXCLUDE="handed_out,,")
    done.expect("case lists ok joined")
    assert done.err.count("MH_OPENMP_EXCLUDE=handed_out,, is not accepted, ignored") == 1
