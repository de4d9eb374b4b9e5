# SPDX-License-Identifier: BSD-3-Clause
"""`ws critical` and `ws atomic` exclude all ranks of a node, even if loops are not shared."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from harness.launch import Arm, Run, run
from manyhands_bench.mpis import MpiBuild

from openmp.compile import compiled_marked

SOURCE = Path(__file__).parent / "exclusion.c"
WAYS = {"unnamed", "named", "narrow", "wide", "captured"}
CROWDED = len(os.sched_getaffinity(0)) + 1


@pytest.mark.under("mpich4", "openmpi4")
@pytest.mark.parametrize("compiler", ["gcc", "clang-14"])
@pytest.mark.parametrize(("ranks", "threads"), [(2, 1), (2, 2), (CROWDED, 1)])
def test_one_thread_of_one_rank_at_a_time(
    mpi: MpiBuild, helped: Arm, compiler: str, ranks: int, threads: int
) -> None:
    program = compiled_marked(mpi, compiler, "-O2", SOURCE)
    done = run(mpi, helped, ranks, [str(program)], {"OMP_NUM_THREADS": str(threads)}, 100)
    assert updates_of(done) == WAYS


@pytest.mark.under("mpich4", "openmpi4")
def test_one_rank_at_a_time_in_fortran(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled_marked(mpi, "gfortran", "-O2", SOURCE.with_suffix(".f90"))
    done = run(mpi, helped, 2, [str(program)], {"OMP_NUM_THREADS": "1"}, 100)
    assert updates_of(done) == {"critical", "complex"}


def updates_of(done: Run) -> set[str]:
    """Returns the variables, all of which must have every update."""
    assert done.code == 0, done.told()
    found = re.findall(r"^(\w+): (\d+) updates of (\d+)$", done.out, re.MULTILINE)
    assert all(updates == wanted for _, updates, wanted in found), done.told()
    done.expect_clean()
    return {way for way, _, _ in found}
