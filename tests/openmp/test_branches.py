# SPDX-License-Identifier: BSD-3-Clause
"""A region whose late executions make a call that keeps regions from being shared still has the
right result.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.launch import Arm, run
from manyhands_bench.mpis import MpiBuild

from openmp.compile import compiled_openmp
from openmp.test_matrix import ends, patience

SOURCE = Path(__file__).parent / "branches.c"


@pytest.mark.under("mpich4")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("compiler", ["gcc", "clang-14"])
def test_what_a_region_does_one_day_is_right(
    mpi: MpiBuild, helped: Arm, compiler: str, threads: int
) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", SOURCE)
    # libgomp's threads spin at a barrier: with three threads on two cores each barrier would take a
    # time slice. Threads of the passive policy sleep instead.
    env = {"MH_OPENMP": "1", "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    seen = ends(run(mpi, helped, 2, [str(program), *patience(threads)], env, 100))
    assert not [name for name, (right, _) in seen.items() if right != "ok"]
    in_sight = {name for name in seen if not name.startswith(("hidden_", "before_"))}
    # A region is not shared, from its first execution on, if the search of its machine code finds a
    # call that is not on the list of permitted calls (src/openmp/calls.cpp).
    assert not [name for name in in_sight if seen[name][1] == "joined"]
    assert len(in_sight) == 10
    if threads == 1:
        assert not [name for name in seen.keys() - in_sight if seen[name][1] == "alone"]
