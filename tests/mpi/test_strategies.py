# SPDX-License-Identifier: BSD-3-Clause
"""Tests which ranks help over NUMA nodes, by strategy, and how long messages are cut.

hwloc describes a machine of two NUMA nodes. The first core of the tests is on one node, the last
core on the other, and the ranks are pinned to these cores. Unless a test says otherwise, rank 0
sends to rank 1, stays outside MPI until its message has arrived, and rank 2 waits. Forbidden help
must not happen in any run. Permitted help needs a free core in time, so such a test repeats the
program.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness.launch import QUICK, Arm, longer_and_longer, without_heap
from manyhands_bench.mpis import MpiBuild

SOURCE = Path(__file__).parent / "one_long_message_while_all_others_wait.c"
LENGTH = 4 << 20
CORES = sorted(os.sched_getaffinity(0))
TWO_NUMA_NODES = {"HWLOC_SYNTHETIC": f"node:2 core:{CORES[-1]} pu:1"}
# A machine like TWO_NUMA_NODES, but with all cores of the tests on the first of its two NUMA nodes.
ONE_OF_TWO = {"HWLOC_SYNTHETIC": f"node:2 core:{CORES[-1] + 1} pu:1"}
APART = "0,0,1"  # HOMES or THEN: rank 2 is alone on the other NUMA node

pytestmark = [
    pytest.mark.skipif(len(CORES) < 2, reason="needs two cores"),
    pytest.mark.under(*QUICK),
]


@pytest.fixture
def helped(helped: Arm) -> Arm:
    """Returns the arm without the heap."""
    return without_heap(helped)


@pytest.fixture
def away(tmp_path: Path) -> dict[str, str]:
    """Returns the settings of a sender that is outside MPI while its message is copied."""
    return {**TWO_NUMA_NODES, "MH_MEMORY": "cma", "SENDER": "away", "DONE": str(tmp_path / "done")}


Summary = dict[str, Any]


def runs(mpi: MpiBuild, helped: Arm, ranks: int, env: dict[str, str]) -> Any:
    """Yields the summaries of ever longer runs. Checks that all messages went by rendezvous."""
    for done, rounds in longer_and_longer(mpi, helped, ranks, SOURCE, env):
        if "DONE" in env:
            Path(env["DONE"]).unlink()
        assert done.summary is not None
        assert done.summary["total"]["messages_by_rendezvous"] == rounds, done.told()
        yield done.summary


def happens(
    mpi: MpiBuild, helped: Arm, ranks: int, env: dict[str, str], event: Callable[[Summary], bool]
) -> bool:
    return any(event(summary) for summary in runs(mpi, helped, ranks, env))


def by_others(summary: Summary) -> int:
    return summary["total"]["others_bytes"]


def third_rank_helps(mpi: MpiBuild, helped: Arm, env: dict[str, str]) -> bool:
    return happens(mpi, helped, 3, env, lambda summary: by_others(summary) > 0)


def third_rank_copies_nothing(mpi: MpiBuild, helped: Arm, env: dict[str, str]) -> bool:
    return by_others(next(runs(mpi, helped, 3, env))) == 0


# ---- Copies by third ranks, by strategy ----------------------------------------------------------


def test_localized_leaves_other_numa_nodes_alone(mpi: MpiBuild, helped: Arm, away: dict) -> None:
    env = {**away, "MH_STRATEGY": "localized", "HOMES": APART}
    assert third_rank_copies_nothing(mpi, helped, env)


def test_localized_helps_on_its_own_numa_node(mpi: MpiBuild, helped: Arm, away: dict) -> None:
    env = {**away, **ONE_OF_TWO, "MH_STRATEGY": "localized", "HOMES": APART}
    assert third_rank_helps(mpi, helped, env)


def test_mixed_helps_on_any_numa_node(mpi: MpiBuild, helped: Arm, away: dict) -> None:
    env = {**away, "MH_STRATEGY": "mixed", "MH_SATURATE": "1", "HOMES": APART}
    assert third_rank_helps(mpi, helped, env)


def test_throughput_leaves_a_saturated_numa_node_alone(
    mpi: MpiBuild, helped: Arm, away: dict
) -> None:
    """The sender is outside MPI all the time: one active rank saturates its NUMA node
    (MH_SATURATE=1).
    """
    env = {**away, "MH_STRATEGY": "throughput", "MH_SATURATE": "1", "HOMES": APART}
    assert third_rank_copies_nothing(mpi, helped, env)


def test_throughput_helps_a_numa_node_that_is_not_saturated(
    mpi: MpiBuild, helped: Arm, away: dict
) -> None:
    env = {**away, "MH_STRATEGY": "throughput", "MH_SATURATE": "3", "HOMES": APART}
    assert third_rank_helps(mpi, helped, env)


def test_throughput_helps_on_its_own_numa_node_however_busy_that_is(
    mpi: MpiBuild, helped: Arm, away: dict
) -> None:
    env = {**away, **ONE_OF_TWO, "MH_STRATEGY": "throughput", "MH_SATURATE": "1", "HOMES": APART}
    assert third_rank_helps(mpi, helped, env)


# ---- Ranks that are pinned after MPI_Init --------------------------------------------------------


def test_a_rank_that_was_pinned_away_is_far(mpi: MpiBuild, helped: Arm, away: dict) -> None:
    env = {**away, "MH_STRATEGY": "localized", "HOMES": "1,1,1", "THEN": APART}
    assert third_rank_copies_nothing(mpi, helped, env)


def test_a_rank_that_was_pinned_beside_is_near(mpi: MpiBuild, helped: Arm, away: dict) -> None:
    """The receiver and rank 2 end on one core. The receiver has low priority there, so it is often
    interrupted and leaves chunks to rank 2.
    """
    env = {**away, "MH_STRATEGY": "localized", "HOMES": "0,1,0", "THEN": "1,0,0", "NICE": "1"}
    assert third_rank_helps(mpi, helped, env)


# ---- A sender that waits copies its message ------------------------------------------------------


@pytest.mark.parametrize(("strategy", "copies"), [("localized", False), ("mixed", True)])
def test_a_sender_copies_to_another_numa_node_unless_localized(
    mpi: MpiBuild, helped: Arm, strategy: str, copies: bool
) -> None:
    """A sender may push to a receiver that has lost its core, so no single run decides the test."""
    env = {**TWO_NUMA_NODES, "MH_MEMORY": "cma", "MH_STRATEGY": strategy, "HOMES": "0,1"}

    def seen(summary: Summary) -> bool:
        return (summary["ranks"][0]["own_bytes"] > 0) == copies

    assert happens(mpi, helped, 2, env, seen)


# ---- Packing for another node: rank 0 sends to rank 2, ranks 1 and 3 wait ------------------------


@pytest.mark.parametrize(("homes", "lends"), [("0,1,0,1", False), ("0,0,1,1", True)])
def test_localized_lends_to_packing_on_its_own_numa_node_alone(
    mpi: MpiBuild, helped: Arm, homes: str, lends: bool
) -> None:
    env = {**TWO_NUMA_NODES, "MH_STRATEGY": "localized", "MH_FAKE_NODES": "2", "TO": "2"}
    env |= {"TYPE": "scattered", "HOMES": homes}

    def on_lent_cores(summary: Summary) -> bool:
        return summary["total"]["bytes_on_lent_cores"] > 0

    if lends:
        assert happens(mpi, helped, 4, env, on_lent_cores)
    else:
        assert not on_lent_cores(next(runs(mpi, helped, 4, env)))


# ---- The length of chunks ------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [16 << 10, 64 << 10, 512 << 10])
def test_a_message_is_cut_into_chunks_as_asked_for(mpi: MpiBuild, helped: Arm, chunk: int) -> None:
    env = {"MH_MEMORY": "cma", "MH_CHUNK": str(chunk)}
    total = next(runs(mpi, helped, 2, env))["total"]
    assert total["own_chunks"] == total["messages_by_rendezvous"] * LENGTH // chunk


def test_long_messages_have_chunks_of_256_kb(mpi: MpiBuild, helped: Arm) -> None:
    total = next(runs(mpi, helped, 2, {"MH_MEMORY": "cma"}))["total"]
    assert total["own_chunks"] == total["messages_by_rendezvous"] * LENGTH // (256 << 10)
