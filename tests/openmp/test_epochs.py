# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that wait in one-sided synchronisation lend their core to loops and help with messages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, longer_runs
from manyhands_bench.mpis import MpiBuild

from openmp.compile import compiled_openmp

SOURCE = Path(__file__).parent / "epochs.c"

pytestmark = [
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores"),
    pytest.mark.under(*QUICK),
]


def run_until_lent(mpi: MpiBuild, helped: Arm, ranks: int, env: dict[str, str]) -> None:
    program = str(compiled_openmp(mpi, "gcc", "-O2", SOURCE))
    settings = {"MH_OPENMP": "1", "OMP_NUM_THREADS": "1", "WORK": "loop", **env}
    for done, _ in longer_runs(mpi, helped, ranks, program, settings):
        assert done.summary is not None
        if done.summary["ranks"][1]["loops"]["units_lent"] > 0:
            return
    pytest.fail(f"no iteration was lent a core\n{done.told()}\n{done.summary}")


@pytest.mark.parametrize("wait", ["fence", "wait", "start", "lock"])
def test_an_epoch_lends_its_core_to_a_loop(mpi: MpiBuild, helped: Arm, wait: str) -> None:
    run_until_lent(mpi, helped, 2, {"WAIT": wait})


def test_a_flush_lends_its_core_to_a_loop(mpi: MpiBuild, helped: Arm) -> None:
    nodes = {"MH_FAKE_NODES": "2", "MH_WINDOWS": "all"}
    run_until_lent(mpi, helped, 4, {"WAIT": "flush", **nodes})


@pytest.mark.parametrize("wait", ["fence", "wait", "start", "lock"])
def test_an_epoch_helps_with_messages(mpi: MpiBuild, helped: Arm, wait: str) -> None:
    program = str(compiled_openmp(mpi, "gcc", "-O2", SOURCE))
    settings = {"MH_MEMORY": "cma", "WORK": "message", "WAIT": wait}
    for done, _ in longer_runs(mpi, helped, 3, program, settings):
        assert done.summary is not None
        assert {pair["victim"] for pair in done.summary["helped"]} <= {1}, "jobs are the receiver's"
        if done.summary["ranks"][2]["others_bytes"] > 0:
            return
    pytest.fail(f"nothing was copied for others\n{done.told()}\n{done.summary}")
