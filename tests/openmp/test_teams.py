# SPDX-License-Identifier: BSD-3-Clause
"""Tests teams that the program changes during the run, and regions inside of regions."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.launch import Arm, run
from manyhands_bench.mpis import MpiBuild

from openmp.compile import compiled_openmp

SOURCE = Path(__file__).parent / "teams.c"


@pytest.mark.under("mpich4", "openmpi4")
@pytest.mark.parametrize("compiler", ["gcc", "clang-14"])
def test_a_loop_has_the_team_that_the_program_asked_for_last(
    mpi: MpiBuild, helped: Arm, compiler: str
) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", SOURCE)
    env = {"MH_OPENMP": "1", "OMP_NUM_THREADS": "1"}
    run(mpi, helped, 2, [str(program)], env, 120).expect("case teams ok")
