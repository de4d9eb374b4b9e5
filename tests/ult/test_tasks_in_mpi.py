# SPDX-License-Identifier: BSD-3-Clause
"""Light tasks that wait in MPI calls let other tasks run on their workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.launch import COMPILED, QUICK, Arm, run
from harness.making import made
from manyhands_bench.mpis import MpiBuild

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).parent / "tasks_in_mpi.cpp"
LIBRARY = ROOT / "build" / "lib"
LIMIT_S = 60
CALLS = (
    "recv",
    "recv-long",
    "wait",
    "waitall",
    "waitany",
    "waitsome",
    "probe",
    "mprobe",
    "sendrecv",
    "ssend",
    "send-long",
)


def program(build: MpiBuild) -> str:
    compiler = build.mpicc.with_name(build.mpicc.name.replace("mpicc", "mpicxx"))

    def command(target: Path) -> list[str]:
        words = [str(compiler), "-std=c++20", "-O1", str(SOURCE), f"-I{ROOT / 'include'}"]
        return [
            *words,
            f"-L{LIBRARY}",
            f"-Wl,-rpath,{LIBRARY}",
            "-lmanyhands-ult",
            "-o",
            str(target),
        ]

    library = LIBRARY / "libmanyhands-ult.so"
    return str(made(COMPILED / build.name / SOURCE.stem, [SOURCE, library], command, 120))


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("call", CALLS)
def test_a_task_in_a_call_lets_another_task_of_its_worker_run(
    mpi: MpiBuild, helped: Arm, call: str
) -> None:
    """The call completes only after the other task has sent a message."""
    done = run(mpi, helped, 2, [program(mpi), "waits", call], timeout_s=LIMIT_S)
    done.expect("right, parked yes")


def test_tasks_exchange_messages_under_every_mpi(mpi: MpiBuild, helped: Arm) -> None:
    done = run(mpi, helped, 2, [program(mpi), "pairs", "20", "2", "12"], timeout_s=LIMIT_S)
    done.expect("right, parked yes")


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("workers", [1, 3])
def test_tasks_on_so_many_workers_exchange_messages(
    mpi: MpiBuild, helped: Arm, workers: int
) -> None:
    words = [program(mpi), "pairs", "100", str(workers), "16"]
    run(mpi, helped, 2, words, timeout_s=LIMIT_S).expect("right, parked yes")


@pytest.mark.under(*QUICK)
def test_a_single_task_needs_no_other(mpi: MpiBuild, helped: Arm) -> None:
    words = [program(mpi), "pairs", "1", "1", "40"]
    run(mpi, helped, 2, words, timeout_s=LIMIT_S).expect("right, parked yes")


@pytest.mark.under(*QUICK)
def test_without_the_library_a_single_task_waits_as_ever(mpi: MpiBuild, plain: Arm) -> None:
    words = [program(mpi), "pairs", "1", "1", "8"]
    run(mpi, plain, 2, words, timeout_s=LIMIT_S).expect("right, parked no")
