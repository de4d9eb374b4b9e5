# SPDX-License-Identifier: BSD-3-Clause
"""Checks which ranks moved the bytes of long messages: both ends, third ranks, and threads on lent
cores.

Results are right without any helper, so only this test shows that helpers work. MH_CORES states
that each rank has a core, so third ranks help on a machine with two cores. The machine decides
whether a helper has a core in time. Tests of permitted help therefore repeat the program with ever
more rounds. Tests of guarantees check every run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness.launch import QUICK, Arm, longer_and_longer, with_heap, without_heap
from manyhands_bench.mpis import WITHOUT_CMA, MpiBuild

SOURCE = Path(__file__).parent / "one_long_message_while_all_others_wait.c"
LENGTH = 4 << 20
# With these settings only the receiver and the sender see the job of a message. Without them the
# sender may also find the job as any waiting rank does.
UNSEEN_BY_OTHERS = {
    "MH_HELP_THRESHOLD": str(LENGTH + 1),
    "MH_MAPPED_HELP_THRESHOLD": str(LENGTH + 1),
}

pytestmark = [
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores"),
    pytest.mark.under(*QUICK),
]


@pytest.fixture
def helped(helped: Arm) -> Arm:
    """Returns the arm without the heap, because scattered messages in the heap need no cells."""
    return without_heap(helped)


class Seen:
    """The work of the ranks in a run, from its summary."""

    def __init__(self, summary: dict[str, Any], rounds: int) -> None:
        self.summary = summary
        self.messages = rounds
        self.bytes = rounds * LENGTH
        self.by_rendezvous = summary["total"]["messages_by_rendezvous"] / rounds

    def sum(self, key: str, *ranks: int) -> int:
        return sum(self.summary["ranks"][rank][key] for rank in ranks)

    def own(self, *ranks: int) -> int:
        """Returns the bytes that these ranks moved of messages that they send or receive."""
        return self.sum("own_bytes", *ranks)

    def both_copy(self) -> bool:
        """Returns true if rank 0, the sender, has moved data, and rank 1, the receiver, more than
        the first chunk of each message, which it has as soon as it opens the job.
        """
        return self.own(0) > 0 and self.sum("own_chunks", 1) > self.messages

    def others(self, *ranks: int) -> int:
        """Returns the bytes that these ranks copied between two other ranks."""
        return self.sum("others_bytes", *ranks)

    def by_helpers(self, *ranks: int) -> int:
        """Returns the bytes that threads of these ranks moved on cores of other ranks."""
        return self.sum("bytes_on_lent_cores", *ranks)

    def cores_lent(self, *ranks: int) -> int:
        return sum(self.summary["ranks"][rank]["loops"]["units_lent"] for rank in ranks)


def run_until(
    mpi: MpiBuild,
    helped: Arm,
    ranks: int,
    env: dict[str, str],
    happens: Callable[[Seen], bool] = lambda seen: True,
) -> Seen:
    """Returns the first run in which `happens` is true; each run is longer than the last."""
    for done, rounds in longer_and_longer(mpi, helped, ranks, SOURCE, env):
        seen = Seen(done.summary, rounds)
        if happens(seen):
            return seen
    pytest.fail(f"not seen\n{done.told()}\n{done.summary}")


# ---- Contiguous messages -------------------------------------------------------------------------


def test_sender_and_receiver_copy_a_contiguous_message(mpi: MpiBuild, helped: Arm) -> None:
    env = {"MH_MEMORY": "cma", **UNSEEN_BY_OTHERS}
    seen = run_until(mpi, helped, 2, env, Seen.both_copy)
    assert seen.by_rendezvous == 1
    assert seen.own(0, 1) == seen.bytes


def test_a_sender_that_polls_copies_chunks_of_its_message(mpi: MpiBuild, helped: Arm) -> None:
    env = {"MH_MEMORY": "cma", "SENDER": "polls", **UNSEEN_BY_OTHERS}
    run_until(mpi, helped, 2, env, lambda seen: seen.own(0) > 0)


@pytest.mark.parametrize("waiters", ["recv", "waitall", "barrier", "test"])
def test_third_ranks_copy_a_contiguous_message(mpi: MpiBuild, helped: Arm, waiters: str) -> None:
    env = {"MH_MEMORY": "cma", "SENDER": "sleeps", "WAITERS": waiters}
    seen = run_until(mpi, helped, 4, env, lambda seen: seen.others(2, 3) > 0)
    assert {pair["victim"] for pair in seen.summary["helped"]} == {1}, "jobs are the receiver's"
    assert {pair["helper"] for pair in seen.summary["helped"]} <= {2, 3}
    assert seen.own(0, 1) + seen.others(2, 3) == seen.bytes


def test_third_ranks_leave_what_is_too_short_for_them(mpi: MpiBuild, helped: Arm) -> None:
    env = {"MH_MEMORY": "cma", "MH_HELP_THRESHOLD": str(LENGTH + 1), "SENDER": "sleeps"}
    seen = run_until(mpi, helped, 4, env)
    assert seen.by_rendezvous == 1
    assert seen.others(2, 3) == 0


def test_ranks_that_compute_between_polls_help_nobody(mpi: MpiBuild, helped: Arm) -> None:
    seen = run_until(mpi, helped, 4, {"MH_MEMORY": "cma", "WAITERS": "compute"})
    assert seen.others(2, 3) == 0
    assert seen.cores_lent(2, 3) == 0


def test_the_receiver_drains_all_that_goes_through_cells(mpi: MpiBuild, helped: Arm) -> None:
    seen = run_until(mpi, helped, 2, {"MH_MEMORY": "cells"})
    assert seen.by_rendezvous == 1
    assert seen.own(1) + seen.by_helpers(1) == seen.bytes


# ---- Scattered messages --------------------------------------------------------------------------


@pytest.mark.parametrize("type", ["scattered", "one-sided"])
def test_the_receiver_unpacks_all_of_a_scattered_message(
    mpi: MpiBuild, helped: Arm, type: str
) -> None:
    seen = run_until(mpi, helped, 2, {"TYPE": type})
    assert seen.by_rendezvous == 1
    assert seen.own(1) + seen.by_helpers(1) == seen.bytes


def test_a_waiting_receiver_lends_its_core_to_its_sender(mpi: MpiBuild, helped: Arm) -> None:
    """The sender is outside MPI."""
    env = {"TYPE": "scattered", "SENDER": "sleeps"}
    run_until(mpi, helped, 2, env, lambda seen: seen.cores_lent(1) > 0)


def test_helpers_of_the_receiver_unpack_on_lent_cores(mpi: MpiBuild, helped: Arm) -> None:
    env = {"TYPE": "scattered"}
    seen = run_until(mpi, helped, 4, env, lambda seen: seen.by_helpers(1) > 0)
    assert seen.cores_lent(0, 2, 3) > 0
    assert seen.own(1) + seen.by_helpers(1) == seen.bytes


@pytest.mark.parametrize("cma", [True, False], ids=["cma", "no-cma"])
def test_third_ranks_lend_their_cores_to_scattered_messages(
    mpi: MpiBuild, helped: Arm, cma: bool
) -> None:
    env = {"TYPE": "scattered", "SENDER": "sleeps", **({} if cma else WITHOUT_CMA)}
    run_until(mpi, helped, 4, env, lambda seen: seen.cores_lent(2, 3) > 0)


# ---- Buffers in a shared heap; MH_MEMORY=mapped, so the kernel copies nothing --------------------


@pytest.mark.parametrize("type", ["contiguous", "scattered", "one-sided"])
def test_sender_and_receiver_move_what_both_map(mpi: MpiBuild, helped: Arm, type: str) -> None:
    env = {"MH_MEMORY": "mapped", "TYPE": type, **UNSEEN_BY_OTHERS}
    both = run_until(mpi, with_heap(helped), 2, env, Seen.both_copy)
    assert both.by_rendezvous == 1
    assert both.own(0, 1) == both.bytes


@pytest.mark.parametrize("type", ["contiguous", "scattered", "one-sided"])
def test_third_ranks_move_what_all_map(mpi: MpiBuild, helped: Arm, type: str) -> None:
    env = {"MH_MEMORY": "mapped", "TYPE": type, "SENDER": "sleeps"}
    seen = run_until(mpi, with_heap(helped), 4, env, lambda seen: seen.others(2, 3) > 0)
    assert {pair["victim"] for pair in seen.summary["helped"]} == {1}, "jobs are the receiver's"
    assert seen.own(0, 1) + seen.others(2, 3) == seen.bytes


@pytest.mark.parametrize("source", ["malloc", "mmap"])
def test_the_summary_counts_what_lies_outside_of_the_heap(
    mpi: MpiBuild, helped: Arm, source: str
) -> None:
    seen = run_until(mpi, with_heap(helped), 2, {"FROM": source})
    outside = seen.summary["total"]["bytes_outside_heap"]
    assert outside > 0 if source == "mmap" else outside == 0


def test_third_ranks_leave_what_is_too_short_even_for_loads(mpi: MpiBuild, helped: Arm) -> None:
    env = {"MH_MEMORY": "mapped", "MH_MAPPED_HELP_THRESHOLD": str(LENGTH + 1), "SENDER": "sleeps"}
    seen = run_until(mpi, with_heap(helped), 4, env)
    assert seen.own(0, 1) == seen.bytes
    assert seen.others(2, 3) == 0


# ---- Between nodes: ranks 0 and 1 are on one, 2 and 3 on another; 0 sends to 2, 1 and 3 wait -----

TO_ANOTHER_NODE = {"TO": "2", "MH_FAKE_NODES": "2"}


def test_a_neighbour_packs_what_goes_to_another_node(mpi: MpiBuild, helped: Arm) -> None:
    env = {"TYPE": "scattered", **TO_ANOTHER_NODE}
    seen = run_until(mpi, helped, 4, env, lambda seen: seen.by_helpers(0) > 0)
    assert seen.by_rendezvous == 1
    assert seen.cores_lent(1) > 0


def test_a_neighbour_unpacks_what_comes_from_another_node(mpi: MpiBuild, helped: Arm) -> None:
    env = {"TYPE": "scattered", **TO_ANOTHER_NODE}
    seen = run_until(mpi, helped, 4, env, lambda seen: seen.by_helpers(2) > 0)
    assert seen.cores_lent(3) > 0


def test_nobody_touches_a_contiguous_message_to_another_node(mpi: MpiBuild, helped: Arm) -> None:
    seen = run_until(mpi, helped, 4, {"TYPE": "one-sided", **TO_ANOTHER_NODE})
    assert seen.by_rendezvous == 0
    assert seen.own(0, 1, 2, 3) + seen.others(0, 1, 2, 3) + seen.by_helpers(0, 1, 2, 3) == 0
