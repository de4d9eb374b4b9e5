# SPDX-License-Identifier: BSD-3-Clause
"""Checks which long messages go by rendezvous. Those of one direction do; exchanges do only if a
third rank is idle, their buffers are in a shared heap, or the user asks for it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, compiled, run, with_heap, without_heap
from manyhands.machine import try_cma
from manyhands_bench.mpis import WITHOUT_CMA, MpiBuild

pytestmark = pytest.mark.under(*QUICK)

SOURCE = Path(__file__).parent / "long_messages_go_either_way.c"
ROUNDS, MANY = 200, 8  # as in SOURCE
BY_RENDEZVOUS = {
    "one-way": ROUNDS,
    "sends-first": 2 * MANY,  # messages of the first round, before the exchange is detected
    "shift": ROUNDS,  # messages of a pair, in one direction
    "exchange": 0,
    "sendrecv": 0,
    "persistent": 0,
    "two-of-all": 0,
}


@pytest.fixture
def helped(helped: Arm) -> Arm:
    """Returns the arm without the heap, because exchanges in the heap go by rendezvous."""
    return without_heap(helped)


def by_rendezvous(mpi: MpiBuild, helped: Arm, ranks: int, env: dict[str, str]) -> int:
    program = str(compiled(mpi, SOURCE.stem, [SOURCE]))
    done = run(mpi, helped, ranks, [program], {**WITHOUT_CMA, **env})
    assert done.code == 0, done.told()
    done.expect_clean()
    assert done.summary is not None
    return done.summary["total"]["messages_by_rendezvous"]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="cells need a core for each rank")
@pytest.mark.parametrize("memory", ["auto", "cma", "cells"])
@pytest.mark.parametrize("pattern", BY_RENDEZVOUS)
def test_only_what_goes_one_way_goes_by_rendezvous(
    mpi: MpiBuild, helped: Arm, pattern: str, memory: str
) -> None:
    env = {"MH_MEMORY": memory, "PATTERN": pattern}
    if memory == "cma" and try_cma(name_ancestor=True) != 0:
        pytest.skip("the kernel does not copy between processes here")
    assert by_rendezvous(mpi, helped, 2, env) == BY_RENDEZVOUS[pattern]


@pytest.mark.parametrize("pattern", BY_RENDEZVOUS)
@pytest.mark.parametrize("memory", ["auto", "mapped"])
def test_all_go_by_rendezvous_whose_buffers_are_in_a_shared_heap(
    mpi: MpiBuild, helped: Arm, pattern: str, memory: str
) -> None:
    each = {"exchange": 2 * MANY, "sends-first": 2 * MANY, "one-way": 1, "shift": 1}
    env = {"MH_MEMORY": memory, "PATTERN": pattern}
    assert by_rendezvous(mpi, with_heap(helped), 2, env) == ROUNDS * each.get(pattern, 2)


@pytest.mark.parametrize("pattern", ["exchange", "sends-first", "sendrecv", "persistent"])
def test_all_go_by_rendezvous_if_the_user_says_so(mpi: MpiBuild, helped: Arm, pattern: str) -> None:
    messages = 2 * ROUNDS * (MANY if pattern in ("exchange", "sends-first") else 1)
    assert (
        by_rendezvous(
            mpi,
            helped,
            2,
            {"MH_THRESHOLD": "64K", "MH_EXCHANGE_THRESHOLD": "64K", "PATTERN": pattern},
        )
        == messages
    )


def test_exchanges_of_two_go_by_rendezvous_while_a_third_is_idle(
    mpi: MpiBuild, helped: Arm
) -> None:
    env = {"MH_CORES": "3", "PATTERN": "two-of-all"}
    assert by_rendezvous(mpi, helped, 3, env | {"MH_HELP_THRESHOLD": "64K"}) > 0
    assert by_rendezvous(mpi, helped, 3, env) == 0, "too short for a third rank"
