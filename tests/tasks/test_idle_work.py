# SPDX-License-Identifier: BSD-3-Clause
"""Tests tasks that run in waiting MPI calls, and workers without tasks, which copy for other
ranks.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, longer_runs, run
from manyhands_bench.mpis import MpiBuild
from task_programs import built

HERE = Path(__file__).parent
LIMIT_S = 90
OTHERS = 8  # tasks of rank 0 beside the waiting task
CALLS = ("recv", "barrier", "wait", "waitall", "waitany", "probe", "sendrecv")
ON = {"MH_TASKS_IN_WAIT": "1"}


def waits(mpi: MpiBuild) -> str:
    return built(mpi, HERE / "tasks_in_waits.cpp")


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("call", CALLS)
def test_tasks_run_in_a_wait_of_another(mpi: MpiBuild, helped: Arm, call: str) -> None:
    """Rank 1 makes its call when all other tasks of rank 0 have run, or after a minute."""
    done = run(mpi, helped, 2, [waits(mpi), "one", call, "60"], ON, timeout_s=LIMIT_S)
    done.expect(f"in the wait {OTHERS} counted {OTHERS} in all {OTHERS + 1}")


def test_tasks_run_in_a_wait_under_every_mpi(mpi: MpiBuild, helped: Arm) -> None:
    done = run(mpi, helped, 2, [waits(mpi), "one", "recv", "60"], ON, timeout_s=LIMIT_S)
    done.expect(f"in the wait {OTHERS} counted {OTHERS} in all {OTHERS + 1}")


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("call", ["recv", "barrier"])
def test_no_task_runs_in_a_wait_unless_asked_for(mpi: MpiBuild, helped: Arm, call: str) -> None:
    done = run(mpi, helped, 2, [waits(mpi), "one", call, "0.5"], timeout_s=LIMIT_S)
    done.expect(f"in the wait 0 counted 0 in all {OTHERS + 1}")


@pytest.mark.under(*QUICK)
def test_no_task_runs_in_a_wait_without_the_library(mpi: MpiBuild, plain: Arm) -> None:
    done = run(mpi, plain, 2, [waits(mpi), "one", "recv", "0.5"], timeout_s=LIMIT_S)
    done.expect(f"in the wait 0 counted 0 in all {OTHERS + 1}")


@pytest.mark.under(*QUICK)
def test_a_task_in_a_wait_has_none_run_in_its_own(mpi: MpiBuild, helped: Arm) -> None:
    done = run(mpi, helped, 2, [waits(mpi), "nested"], ON, timeout_s=LIMIT_S)
    done.expect(f"deepest 2 in all {OTHERS}")


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("balancer", ["none", "steal", "retain", "plb-tree", "auto"])
@pytest.mark.parametrize("on", [False, True], ids=["off", "on"])
def test_tasks_that_wait_have_the_same_results(
    mpi: MpiBuild, helped: Arm, balancer: str, on: bool
) -> None:
    """Runs three iterations of tasks that wait for the answers of another rank's thread."""
    env = ON if on else {}
    done = run(mpi, helped, 2, [waits(mpi), "questions", balancer], env, timeout_s=LIMIT_S)
    seeds, generations, iterations = 40, 3, 3
    numbers = [seed + past for seed in range(seeds) for past in range(generations + 1)]
    run_in_all, answers = iterations * len(numbers), iterations * 2 * sum(numbers)
    done.expect(f"run {run_in_all} answers {answers} wrong 0", f"in waits {'yes' if on else 'no'}")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.under(*QUICK)
def test_a_worker_without_tasks_copies_a_message_of_others(mpi: MpiBuild, helped: Arm) -> None:
    """Rank 3 waits without tasks and copies chunks. Rank 2 computes and polls, and copies none."""
    program = built(mpi, HERE / "idle_workers_copy.cpp")
    for done, _ in longer_runs(mpi, helped, 4, program, {"MH_MEMORY": "cma"}):
        assert done.summary is not None
        copied = [rank["others_bytes"] for rank in done.summary["ranks"]]
        assert copied[:3] == [0, 0, 0]
        if copied[3] > 0:
            return
    pytest.fail(f"not seen\n{done.told()}\n{done.summary}")
