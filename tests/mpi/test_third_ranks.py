# SPDX-License-Identifier: BSD-3-Clause
"""Waiting ranks lend their cores to two other ranks that transfer a message of scattered data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, compiled, run, without_heap
from manyhands_bench.mpis import WITHOUT_CMA, MpiBuild

SOURCE = Path(__file__).parent / "third_ranks_lend_their_cores_to_pipelines.c"


@pytest.fixture
def helped(helped: Arm) -> Arm:
    """Returns the arm without the heap, because scattered messages in the heap need no cells."""
    return without_heap(helped)


@pytest.mark.under(*QUICK)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize("cma", [True, False], ids=["cma", "no-cma"])
def test_third_ranks_lend_their_cores(mpi: MpiBuild, helped: Arm, cma: bool) -> None:
    env = {"MH_CORES": "4", **({} if cma else WITHOUT_CMA)}
    done = run(mpi, helped, 4, [str(compiled(mpi, SOURCE.stem, [SOURCE]))], env)
    assert done.code == 0, done.told()
    done.expect_clean()
    assert done.summary is not None
    lent = [rank["loops"]["units_lent"] for rank in done.summary["ranks"]]
    assert lent[2] + lent[3] > 0, done.told()
