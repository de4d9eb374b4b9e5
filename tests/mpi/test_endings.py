# SPDX-License-Identifier: BSD-3-Clause
"""Programs that do not end well: the launcher says the same as without help, and nothing is left.

A rank aborts, is killed, exits without MPI_Finalize or with a code, or the launcher gets Ctrl-C,
while large messages are on their way.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness.launch import TIMED_OUT, Arm, Run, compiled, run
from harness.leftovers import processes
from manyhands.benchmarks.mpis import MpiBuild

SOURCE = Path(__file__).parent / "ending.c"
LIMIT_S = 30
PLAIN = Arm("plain")
PLAIN_TRIES = 10  # for a code not seen yet
MOST_CODES = 4


def end(mpi: MpiBuild, arm: Arm, how: str, meddle: object = None) -> Run:
    program = compiled(mpi, "ending", [SOURCE])
    return run(mpi, arm, 2, [str(program), how], timeout_s=LIMIT_S, meddle=meddle)


def expect_same_end(mpi: MpiBuild, helped: Arm, how: str, meddle: object = None) -> None:
    """Helped ends with a code that it also ends with plain.

    Hydra's code depends on the order in which it hears of the ends of several ranks: of one's own,
    or of one that Hydra killed for it (seldom, with and without help). So those are expected
    besides, and a code not seen yet is looked for in further plain runs.
    """
    done = end(mpi, helped, how, meddle)
    plain: set[int] = {signal.SIGKILL, signal.SIGTERM} if mpi.family == "hydra" else set()
    while done.code not in plain and len(plain) < MOST_CODES:
        for _ in range(PLAIN_TRIES):
            without = end(mpi, PLAIN, how, meddle)
            assert without.code != TIMED_OUT, without.told()
            if without.code not in plain:
                break
        else:
            break
        plain.add(without.code)
    assert done.code in plain, f"plain: {sorted(plain)}\n{done.told()}"
    done.expect_clean()


@pytest.mark.parametrize("how", ["abort", "kill", "segv", "exit", "_exit", "return"])
def test_the_launcher_says_the_same(mpi: MpiBuild, helped: Arm, how: str) -> None:
    expect_same_end(mpi, helped, how)


def ranks_of(mark: str) -> list[int]:
    return [pid for pid, line in processes(mark).items() if line.split()[0].endswith("/ending")]


def when_ready(mark: str, process: subprocess.Popen[str]) -> list[int]:
    """The ranks, once both exchange messages."""
    end_at = time.monotonic() + 15
    while len(pids := ranks_of(mark)) < 2 and time.monotonic() < end_at:
        time.sleep(0.05)
    assert process.poll() is None, "the launcher is gone"
    time.sleep(0.5)
    return pids


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_to_the_launcher_ends_all(
    mpi: MpiBuild, helped: Arm, number: signal.Signals
) -> None:
    how = "wait" if number == signal.SIGINT else "barrier"

    def meddle(process: subprocess.Popen[str], mark: str) -> None:
        when_ready(mark, process)
        process.send_signal(number)

    expect_same_end(mpi, helped, how, meddle)


@pytest.mark.parametrize("how", ["wait", "barrier"])
def test_a_rank_killed_from_outside_ends_all(mpi: MpiBuild, helped: Arm, how: str) -> None:
    def meddle(process: subprocess.Popen[str], mark: str) -> None:
        os.kill(sorted(when_ready(mark, process))[1], signal.SIGKILL)

    expect_same_end(mpi, helped, how, meddle)
