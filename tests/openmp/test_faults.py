# SPDX-License-Identifier: BSD-3-Clause
"""The job ends or continues after an owner or a lender of a core was killed or stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness.launch import TIMED_OUT, Arm, Run, run
from harness.leftovers import ranks
from manyhands_bench.mpis import MpiBuild

from openmp.compile import compiled_openmp

SOURCE = Path(__file__).parent / "endless.c"
SHARED = {"MH_OPENMP": "1", "OMP_NUM_THREADS": "1"}
OWNER, LENDER = 0, 1  # the oldest process is rank 0, since launchers start rank 0 first


def at_work(mark: str) -> list[int]:
    pids = ranks(mark, "/endless-", 2)
    time.sleep(0.7)
    return pids


def endless(mpi: MpiBuild, arm: Arm, seconds: float, meddle: object = None) -> Run:
    program = compiled_openmp(mpi, "gcc", "-O2", SOURCE)
    return run(mpi, arm, 2, [str(program), str(seconds)], SHARED, 30, meddle)


@pytest.mark.parametrize("whom", [OWNER, LENDER], ids=["owner", "lender"])
def test_a_killed_rank_ends_the_job(mpi: MpiBuild, helped: Arm, whom: int) -> None:
    def meddle(_: subprocess.Popen[str], mark: str) -> None:
        os.kill(at_work(mark)[whom], signal.SIGKILL)

    done = endless(mpi, helped, 1000, meddle)
    assert done.code not in (0, TIMED_OUT), done.told()
    done.expect_clean()


@pytest.mark.parametrize("whom", [OWNER, LENDER], ids=["owner", "lender"])
def test_a_stopped_rank_goes_on_where_it_was(mpi: MpiBuild, helped: Arm, whom: int) -> None:
    def meddle(_: subprocess.Popen[str], mark: str) -> None:
        pid = at_work(mark)[whom]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(pid, signal.SIGCONT)

    endless(mpi, helped, 2, meddle).expect("PASS joined")
