# SPDX-License-Identifier: BSD-3-Clause
"""A helper has the thread state of its owner: floating point, locale, stack, signals."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.launch import Arm, Run, run
from manyhands_bench.mpis import MpiBuild

from openmp.compile import compiled_openmp
from openmp.test_matrix import ends

HERE = Path(__file__).parent
SHARED = {"MH_OPENMP": "1", "OMP_NUM_THREADS": "1"}
COMPILERS = pytest.mark.parametrize("compiler", ["gcc", "clang-14"])


@pytest.mark.under("mpich4", "openmpi4")
@COMPILERS
def test_helpers_compute_as_their_owner_does(mpi: MpiBuild, helped: Arm, compiler: str) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", HERE / "surroundings.c")
    seen = ends(run(mpi, helped, 2, [str(program)], SHARED, 100))
    assert len(seen) == 8
    assert not [name for name, end in seen.items() if end != ("ok", "joined")], seen


# For each name, the stack limit of `ulimit -s`, the user's settings, and the bytes of stack that
# each iteration takes.
STACKS = {
    "as_usual": ("-s 8192", {}, 3_000_000),
    "without_limit": ("-s unlimited", {}, 100_000_000),
    "asked_for": ("-s 8192", {"OMP_STACKSIZE": "64M"}, 30_000_000),
    "asked_for_as_gcc_says": ("-s 8192", {"GOMP_STACKSIZE": "65536"}, 30_000_000),
}


def deep(mpi: MpiBuild, arm: Arm, limits: list[str], env: dict[str, str], depth: int) -> Run:
    program = compiled_openmp(mpi, "gcc", "-O2", HERE / "deep.c")
    script = " && ".join([f"ulimit {limit}" for limit in limits] + [f"exec {program} {depth}"])
    return run(mpi, arm, 2, ["bash", "-c", script], SHARED | env, 60)


@pytest.mark.under("mpich4")
@pytest.mark.parametrize("how", STACKS)
def test_helpers_have_the_stack_that_the_loop_needs(mpi: MpiBuild, helped: Arm, how: str) -> None:
    limit, env, depth = STACKS[how]
    # Only iterations of helpers use so much stack here, since the main thread's stack has the limit
    # of `ulimit -s`.
    deep(mpi, helped, [limit], env | {"DEEP_HELPERS_ONLY": "1"}, depth).expect(
        "case deep ok joined"
    )


@pytest.mark.under("mpich4")
def test_without_room_for_such_stacks_loops_are_not_shared(mpi: MpiBuild, helped: Arm) -> None:
    done = deep(mpi, helped, ["-s unlimited", "-v 1500000"], {}, 3_000_000)
    done.expect("case deep ok alone")
    assert done.err.count("manyhands: loops are not shared: ") == 1, done.told()
