# SPDX-License-Identifier: BSD-3-Clause
"""Compares random one-sided operations with a serial model, in windows and epochs of every kind.

The program checks itself. With two ranks, every rank has a core and helps the other; with more
ranks, the ranks share the cores. With made-up nodes, windows span both nodes, and operations
between the nodes travel in messages. Not all plain libraries pass: MPICH 4 computes MPI_C_BOOL
differently from its own MPI_Reduce_local, and Open MPI 4 crashes in MPI_Compare_and_swap.
`--fuzz-seed` and `--fuzz-rounds` make a longer search.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, compiled, run, with_heap
from manyhands_bench.mpis import MpiBuild

HERE = Path(__file__).parent
SOURCES = sorted(HERE.glob("*.c"))
LIMIT_S = 120

SPANNING = {"MH_FAKE_NODES": "2", "MH_WINDOWS": "all"}


def _cores(ranks: int) -> dict[str, str]:
    """The setting with which third ranks help on any machine."""
    return {"MH_CORES": str(ranks)}


# For each name of a test case, the number of ranks, the fuzzer's arguments and the environment.
SHAPES = {
    "2 ranks": (2, "--seed 1 --rounds 200", {"MH_CORES": "2"}),
    "3 ranks": (3, "--seed 2 --rounds 60", {}),
    "4 ranks, 2 nodes": (4, "--seed 5 --rounds 40", SPANNING),
    "5 ranks, 2 nodes": (5, "--seed 6 --rounds 15", SPANNING),
    "4 ranks, 2 nodes, long": (4, "--seed 7 --rounds 300", SPANNING),
    "4 ranks, long": (4, "--seed 3 --rounds 300", {}),
    **{
        f"{ranks} ranks, a core each": (ranks, f"--seed {7 + ranks} --rounds 20", _cores(ranks))
        for ranks in (3, 4, 5, 6)
    },
}


def fuzz(
    mpi: MpiBuild,
    arm: Arm,
    shape: str,
    request: pytest.FixtureRequest,
) -> None:
    ranks, arguments, settings = SHAPES[shape]
    words = arguments.split()
    for option in ("seed", "rounds"):
        value = request.config.getoption(f"--fuzz-{option}")
        words += [f"--{option}", str(value)] if value is not None else []
    program = compiled(mpi, "rma", SOURCES)
    done = run(mpi, arm, ranks, [str(program), *words], settings, LIMIT_S)
    done.expect("PASS")
    cores = len(os.sched_getaffinity(0))  # if ranks share them, operations end before others help
    if settings.get("MH_CORES") == str(ranks) and cores >= ranks > 2:
        assert done.summary is not None
        assert done.summary["helped"], f"no third rank helped\n{done.told()}"


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize(
    "shape", [pytest.param(s, marks=[pytest.mark.slow] * ("long" in s)) for s in SHAPES]
)
def test_windows_hold_what_the_model_holds(
    mpi: MpiBuild, helped: Arm, shape: str, request: pytest.FixtureRequest
) -> None:
    fuzz(mpi, helped, shape, request)


@pytest.mark.under(*QUICK)
def test_memory_in_a_shared_heap(
    mpi: MpiBuild, helped: Arm, request: pytest.FixtureRequest
) -> None:
    fuzz(mpi, with_heap(helped), "2 ranks", request)
