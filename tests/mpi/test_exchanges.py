# SPDX-License-Identifier: BSD-3-Clause
"""Which long messages of a pair are described where they may go by cells: none of an exchange."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, compiled, run
from manyhands.benchmarks.mpis import WITHOUT_CMA, MpiBuild

SOURCE = Path(__file__).parent / "long_messages_go_either_way.c"
DESCRIBED = {
    "one-way": True,
    "sends-first": True,  # nobody can know yet
    "shift": True,  # of a pair, in one direction
    "exchange": False,
    "sendrecv": False,
    "persistent": False,
}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="cells need a core for each rank")
@pytest.mark.parametrize("memory", ["either", "cells"])
@pytest.mark.parametrize("pattern", DESCRIBED)
def test_only_what_goes_one_way_is_described(
    mpi: MpiBuild, helped: Arm, pattern: str, memory: str
) -> None:
    if mpi.name not in QUICK:
        pytest.skip("settings do what they do under any MPI")
    env = {"MH_MEMORY": memory, "PATTERN": pattern}
    done = run(mpi, helped, 2, [str(compiled(mpi, SOURCE.stem, [SOURCE]))], {**WITHOUT_CMA, **env})
    assert done.code == 0, done.told()
    done.expect_clean()
    assert done.summary is not None
    described = done.summary["total"]["messages_described"]
    assert (described > 0) == DESCRIBED[pattern], done.told()
