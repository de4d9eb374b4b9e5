# SPDX-License-Identifier: BSD-3-Clause
"""Tests task collections over real MPI libraries: every balancer, one and two nodes, and
failures.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from harness.launch import QUICK, ROOT, TIMED_OUT, Arm, run
from harness.leftovers import MARK, end_processes, ranks
from manyhands_bench import nodes
from manyhands_bench.mpis import MpiBuild, Placement
from task_programs import built

HERE = Path(__file__).parent
LIMIT_S = 90  # two nodes on a loaded machine take half a minute
PLAIN = Arm("plain")
BALANCERS = ("none", "steal", "retain", "plb-central", "plb-tree", "auto")

SEEDS, GENERATIONS, ITERATIONS = 24, 5, 3


def expected() -> str:
    """Returns the output of `collections every`: its tasks form binary trees of numbered nodes."""
    run, ids, level = 0, 0, list(range(1, SEEDS + 1))
    for _ in range(GENERATIONS + 1):
        run += len(level)
        ids += sum(level)
        level = [2 * parent + i for parent in level for i in (0, 1)]
    return f"run {ITERATIONS * run} ids {ITERATIONS * ids} wrong 0"


def program(build: MpiBuild) -> str:
    return built(build, HERE / "collections.cpp")


@pytest.mark.under("mpich4")
def test_the_program_of_the_guide_prints_what_the_guide_says(mpi: MpiBuild, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tasks.md").read_text()
    programs = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 1
    source = tmp_path / "squares.cpp"
    source.write_text(programs[0])
    promised = re.search(r"It prints `(.*?)`", page)
    assert promised is not None
    run(mpi, PLAIN, 2, [built(mpi, source)], timeout_s=LIMIT_S).expect(promised[1])


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("balancer", BALANCERS)
def test_every_balancer_runs_every_task(mpi: MpiBuild, balancer: str) -> None:
    done = run(mpi, PLAIN, 2, [program(mpi), "every", balancer], timeout_s=LIMIT_S)
    done.expect(expected())
    if balancer == "none":
        done.expect("stolen no")
    elif balancer in ("steal", "retain"):
        done.expect("stolen yes")


def test_collections_run_under_every_mpi(mpi: MpiBuild) -> None:
    done = run(mpi, PLAIN, 2, [program(mpi), "every", "retain"], timeout_s=LIMIT_S)
    done.expect(expected(), "stolen yes")


@pytest.mark.under(*QUICK)
def test_more_ranks_than_cores(mpi: MpiBuild) -> None:
    done = run(mpi, PLAIN, 4, [program(mpi), "every", "auto"], timeout_s=LIMIT_S)
    done.expect(expected())


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("in_wait", ["0", "1"])
@pytest.mark.parametrize("balancer", ["retain", "plb-tree"])
def test_with_the_library_in_front(mpi: MpiBuild, helped: Arm, balancer: str, in_wait: str) -> None:
    env = {"MH_TASKS_IN_WAIT": in_wait}
    done = run(mpi, helped, 2, [program(mpi), "every", balancer], env, timeout_s=LIMIT_S)
    done.expect(expected())


@pytest.mark.under(*QUICK)
def test_tasks_of_one_collection_add_to_another(mpi: MpiBuild) -> None:
    done = run(mpi, PLAIN, 2, [program(mpi), "two"], timeout_s=LIMIT_S)
    ids = 2 * 2 * sum(range(1, SEEDS + 1))  # two ranks, two iterations
    done.expect(f"run {4 * SEEDS} and {4 * SEEDS} ids {ids} wrong 0")


@pytest.mark.under(*QUICK)
def test_large_tasks_arrive_whole(mpi: MpiBuild) -> None:
    done = run(mpi, PLAIN, 3, [program(mpi), "large"], timeout_s=LIMIT_S)
    done.expect(f"run 256 ids {sum(range(1, 257))} wrong 0", "stolen yes", "between nodes no")


@pytest.mark.under("mpich4")
def test_ranks_of_a_communicator_in_any_order(mpi: MpiBuild) -> None:
    run(mpi, PLAIN, 3, [program(mpi), "odd"], timeout_s=LIMIT_S).expect(expected())


@pytest.mark.under(*QUICK)
def test_a_rank_killed_in_the_middle_ends_all(mpi: MpiBuild) -> None:
    def meddle(process: subprocess.Popen[str], mark: str) -> None:
        pids = ranks(mark, "/collections", 2)
        assert process.poll() is None, "the launcher is gone"
        time.sleep(0.5)  # time for all ranks to enter process(); the tasks last minutes
        os.kill(pids[1], signal.SIGKILL)

    done = run(mpi, PLAIN, 2, [program(mpi), "long"], timeout_s=20, meddle=meddle)
    assert done.code not in (0, TIMED_OUT), done.told()
    done.expect_clean()


# The shell command that starts each rank, so that the other ranks outlive a dead one. Hydra ends
# all ranks when a process that it has started dies, even with its option against that. The shell
# hides the death of its child from Hydra, and ignores the signal by which Hydra tells the others.
SHELTER = ["sh", "-c", """trap '' USR1; "$@"; exit $?""", "sh"]
SURVIVAL = {"hydra": (["-disable-auto-cleanup"], SHELTER), "openmpi": (["--enable-recovery"], [])}


@pytest.mark.under("mpich4", "mpich5", "openmpi4")
@pytest.mark.parametrize("balancer", ["steal", "retain"])
def test_the_others_finish_the_tasks_of_a_rank_that_dies(mpi: MpiBuild, balancer: str) -> None:
    mark = uuid.uuid4().hex
    environment = {**os.environ, **mpi.environment(), MARK: mark}
    options, shelter = SURVIVAL[mpi.family]
    launcher, *words = mpi.launch(3, Placement.FREE)
    command = [launcher, *options, *words, *shelter, built(mpi, HERE / "survivors.cpp"), balancer]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, env=environment
        )
    finally:
        end_processes(mark)
    assert done.stdout.splitlines().count("lost 1 right 4") == 2, done.stdout + done.stderr


ACROSS = [("every", "retain"), ("every", "steal", "server"), ("large",)]


# Between nodes, MPI_Finalize of MPICH 4 may never end over UCX's TCP, so the test runs under Open
# MPI only.
@pytest.mark.skipif(nodes.obstacle() is not None, reason=f"two nodes: {nodes.obstacle()}")
@pytest.mark.under("openmpi4")
@pytest.mark.parametrize("words", ACROSS, ids="-".join)
def test_work_crosses_nodes(mpi: MpiBuild, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Runs two ranks on each of two nodes."""
    mark = uuid.uuid4().hex
    environment = {**os.environ, **mpi.environment(), MARK: mark}
    with nodes.two_nodes(tmp_path) as pair:
        command = [*mpi.launch_across(pair, 4), program(mpi), *words]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT_S, env=environment
            )
        finally:
            end_processes(mark)
    lines = done.stdout.splitlines()
    wanted = expected() if words[0] == "every" else f"run 256 ids {sum(range(1, 257))} wrong 0"
    assert wanted in lines, done.stdout + done.stderr
    assert "between nodes yes" in lines, done.stdout
