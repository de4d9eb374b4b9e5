# SPDX-License-Identifier: BSD-3-Clause
"""Checks which ranks computed large accumulates: their origin, and ranks that wait.

As in test_who_moves_messages.py, results are right without any helper, so only this test shows that
helpers work. Each test that depends on chance repeats the program with more and more rounds.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from harness.launch import QUICK, Arm, longer_and_longer, with_heap
from manyhands_bench.mpis import MpiBuild

SOURCE = Path(__file__).parent / "one_large_accumulate_while_all_others_wait.c"

pytestmark = [
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores"),
    pytest.mark.under(*QUICK),
]


def helped_by(summary: dict[str, Any], rank: int) -> int:
    """Returns the bytes that this rank accumulated for other ranks."""
    return sum(pair["bytes"] for pair in summary["helped"] if pair["helper"] == rank)


def run_until_helped(
    mpi: MpiBuild,
    helped: Arm,
    ranks: int,
    helpers: tuple[int, ...],
    env: dict[str, str],
    owner: int = 0,
) -> None:
    """Runs the program until one of the ranks `helpers` has computed chunks of the owner's jobs.
    Fails if, in any run, a rank helped another owner.
    """
    for done, _ in longer_and_longer(mpi, helped, ranks, SOURCE, env):
        victims = {pair["victim"] for pair in done.summary["helped"]}
        assert victims <= {owner}, f"jobs of {victims}, not of {owner}"
        if any(helped_by(done.summary, rank) > 0 for rank in helpers):
            return
    pytest.fail(f"ranks {helpers} have not helped\n{done.told()}")


@pytest.mark.parametrize("waiters", ["fence", "barrier", "recv"])
def test_third_ranks_compute_a_part_of_an_accumulate(
    mpi: MpiBuild, helped: Arm, waiters: str
) -> None:
    run_until_helped(mpi, helped, 4, (2, 3), {"WAITERS": waiters, "TARGET": "sleeps"})


def test_the_target_computes_a_part_while_it_waits(mpi: MpiBuild, helped: Arm) -> None:
    run_until_helped(mpi, helped, 2, (1,), {})


def test_scattered_targets_are_helped_with(mpi: MpiBuild, helped: Arm) -> None:
    run_until_helped(mpi, helped, 3, (2,), {"SHAPE": "rows", "TARGET": "sleeps"})


def test_memory_that_only_the_kernel_reaches_is_helped_with(mpi: MpiBuild, helped: Arm) -> None:
    run_until_helped(mpi, helped, 3, (2,), {"KIND": "created", "TARGET": "sleeps"})


def test_memory_in_a_shared_heap_is_helped_with(mpi: MpiBuild, helped: Arm) -> None:
    env = {"KIND": "created", "TARGET": "sleeps", "MH_MEMORY": "mapped"}
    run_until_helped(mpi, with_heap(helped), 3, (2,), env)


@pytest.mark.parametrize("shape", ["contiguous", "rows"])
@pytest.mark.parametrize("target", ["waits", "sleeps"])
def test_what_comes_from_another_node_is_computed_by_the_targets_node(
    mpi: MpiBuild, helped: Arm, target: str, shape: str
) -> None:
    env = {"MH_FAKE_NODES": "2", "MH_WINDOWS": "all", "TO": "2", "TARGET": target, "SHAPE": shape}
    run_until_helped(mpi, helped, 4, (3,), env, owner=2)


def test_no_window_is_ours_where_that_is_asked_for(mpi: MpiBuild, helped: Arm) -> None:
    done, _ = next(iter(longer_and_longer(mpi, helped, 3, SOURCE, {"MH_WINDOWS": "none"})))
    total = done.summary["total"]
    assert (total["windows_ours"], total["one_sided_operations"]) == (0, 0)
    assert total["windows_left"] > 0
