# SPDX-License-Identifier: BSD-3-Clause
"""Tests every clause with every schedule, compiler and optimisation level: the result is the serial
one, and helpers on the core of the waiting rank have joined.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness.launch import COMPILED, Arm, Run, run
from manyhands_bench.mpis import MpiBuild

from openmp import cases
from openmp.compile import compiled_marked, compiled_openmp

HERE = Path(__file__).parent
LIMIT_S = 100
FEW = "40"  # executions of a loop that no helper joins


@dataclass(frozen=True)
class Way:
    compiler: str
    level: str
    threads: int = 1

    @property
    def name(self) -> str:
        return f"{self.compiler}-{self.level}-{self.threads}"


WAYS = [
    *(Way("gcc", level) for level in ("-O0", "-O2", "-O3")),
    *(Way("clang-14", level) for level in ("-O0", "-O2")),
    Way("gcc", "-O2", 2),
    Way("clang-14", "-O2", 2),
]
SHARED = {"MH_OPENMP": "1", "OMP_SCHEDULE": "dynamic,3"}


def ends(done: Run) -> dict[str, tuple[str, str]]:
    """Returns ok or WRONG, and joined or alone, for each case."""
    assert done.code == 0, done.told()
    lines = [line.split() for line in done.out.splitlines() if line.startswith("case ")]
    done.expect_clean()
    return {name: (right, joined) for _, name, right, joined in lines}


def patience(threads: int) -> list[str]:
    """Returns the most executions of a loop. Only chance lets a helper join several threads."""
    return [] if threads == 1 else ["300"]


@pytest.mark.under("mpich4")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_every_case_is_right_and_shared(mpi: MpiBuild, helped: Arm, way: Way) -> None:
    source = written("cases.c", cases.program())
    program = compiled_openmp(mpi, way.compiler, way.level, source)
    env = {**SHARED, "OMP_NUM_THREADS": str(way.threads)}
    seen = ends(run(mpi, helped, 2, [str(program), *patience(way.threads)], env, LIMIT_S))
    wanted = cases.expected()
    assert seen.keys() == wanted.keys()
    wrong = {name for name, (right, _) in seen.items() if right != "ok"}
    if way.compiler.startswith("clang") and way.threads > 1:
        wrong -= cases.named_like(cases.LASTPRIVATE)  # wrong with Clang 14 also without help
    assert not wrong
    if way.threads == 1:
        others = [name for name, (_, joined) in seen.items() if joined not in wanted[name]]
        assert not others, others


def written(name: str, text: str) -> Path:
    source = COMPILED / "openmp" / name
    source.parent.mkdir(parents=True, exist_ok=True)
    if not source.exists() or source.read_text() != text:
        # Test processes run in parallel and use the same source file, so the file is written under
        # another name and then renamed.
        fresh = source.with_name(f"{os.getpid()}-{name}")
        fresh.write_text(text)
        fresh.replace(source)
    return source


@pytest.mark.under("mpich4", "openmpi4")
@pytest.mark.parametrize("compiler", ["gcc", "clang-14"])
def test_marked_loops_are_right_and_shared(mpi: MpiBuild, helped: Arm, compiler: str) -> None:
    source = written("marked.c", cases.marked_program())
    program = compiled_marked(mpi, compiler, "-O2", source)
    env = {"OMP_NUM_THREADS": "1", "OMP_SCHEDULE": "dynamic,3"}
    seen = ends(run(mpi, helped, 2, [str(program)], env, LIMIT_S))
    assert len(seen) == len(cases.MARKED_SCHEDULES) * len(cases.MARKED_CLAUSES)
    assert not [name for name, (right, _) in seen.items() if right != "ok"]
    alone = {name for name, (_, joined) in seen.items() if joined != "joined"}
    assert alone == {name for name in seen if name.startswith(tuple(cases.HAS_BARRIER))}


@pytest.mark.under("mpich4")
def test_marked_loops_alone_are_serial(mpi: MpiBuild) -> None:
    program = compiled_marked(mpi, "gcc", "-O2", written("marked.c", cases.marked_program()))
    seen = ends(run(mpi, Arm("plain"), 2, [str(program), FEW], {"OMP_NUM_THREADS": "4"}, LIMIT_S))
    assert seen, "no case was run"
    assert not [name for name, end in seen.items() if end != ("ok", "alone")], seen


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("loops.f90", marks=pytest.mark.under("mpich4", "openmpi4")),
        pytest.param("loops.f", marks=pytest.mark.under("mpich4", "openmpi4")),
        "loops.cpp",
    ],
)
def test_other_languages(mpi: MpiBuild, helped: Arm, source: str) -> None:
    compiler = "g++" if source.endswith(".cpp") else "gfortran"
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    program = compiled_openmp(mpi, compiler, "-O2", HERE / source)
    seen = ends(run(mpi, helped, 2, [str(program)], {**SHARED, "OMP_NUM_THREADS": "1"}, LIMIT_S))
    assert seen, "no case was run"
    assert not [name for name, end in seen.items() if end != ("ok", "joined")], seen


def test_switched_off_nobody_joins(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled_openmp(mpi, "g++", "-O2", HERE / "loops.cpp")
    env = {"OMP_NUM_THREADS": "1"}
    seen = ends(run(mpi, helped, 2, [str(program), FEW], env, LIMIT_S))
    assert not [name for name, end in seen.items() if end != ("ok", "alone")], seen


@pytest.mark.under("mpich4", "openmpi4")
@pytest.mark.parametrize("ranks", [3, 5])
def test_more_ranks_than_cores(mpi: MpiBuild, helped: Arm, ranks: int) -> None:
    program = compiled_openmp(mpi, "g++", "-O2", HERE / "loops.cpp")
    env = {**SHARED, "OMP_NUM_THREADS": "1"}
    seen = ends(run(mpi, helped, ranks, [str(program), FEW], env, LIMIT_S))
    assert seen, "no case was run"
    assert not [name for name, (right, _) in seen.items() if right != "ok"], seen


# MH_CORES says that each rank has a core, so all ranks that wait lend theirs.
@pytest.mark.under("mpich4", "openmpi4")
@pytest.mark.parametrize("ranks", [3, 4, 5, 6])
def test_ranks_with_a_core_each(mpi: MpiBuild, helped: Arm, ranks: int) -> None:
    program = compiled_openmp(mpi, "g++", "-O2", HERE / "loops.cpp")
    env = {**SHARED, "OMP_NUM_THREADS": "1", "MH_CORES": str(ranks)}
    done = run(mpi, helped, ranks, [str(program), FEW], env, LIMIT_S)
    seen = ends(done)
    assert seen, "no case was run"
    assert not [name for name, (right, _) in seen.items() if right != "ok"], seen
    assert done.summary is not None and done.summary["total"]["loops"]["units_by_others"] > 0


# Workers lend spare cores here, which MH_CORES only assumes. The scheduler of Linux therefore
# decides whether a worker lends at all; tests/unit/lend tests lending. The results must be right in
# both cases.
@pytest.mark.under("mpich4", "openmpi4")
def test_ranks_with_several_cores(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled_openmp(mpi, "g++", "-O2", HERE / "loops.cpp")
    env = {**SHARED, "OMP_NUM_THREADS": "1", "MH_CORES": "6"}
    seen = ends(run(mpi, helped, 2, [str(program), FEW], env, LIMIT_S))
    assert seen, "no case was run"
    assert not [name for name, (right, _) in seen.items() if right != "ok"], seen
