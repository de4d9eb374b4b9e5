# SPDX-License-Identifier: BSD-3-Clause
"""The part of a message that the program reads first is copied last (post_comm_access).

The receiver finds out which end of its buffer changes first. With lo-to-hi, the program reads the
low end first, so the high end must change first. With hi-to-lo, it is the other way round. Chance
decides whether the receiver sees the first change, so a test repeats the program.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, compiled, longer_runs, with_heap, without_heap
from manyhands_bench.mpis import MpiBuild

SOURCE = Path(__file__).parent / "order.c"

pytestmark = [
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores"),
    pytest.mark.under(*QUICK),
]


def ends_that_changed_first(mpi: MpiBuild, helped: Arm, env: dict[str, str]) -> set[str]:
    """Returns the ends that changed first, from the first run in which any was seen."""
    program = compiled(mpi, "order", [SOURCE])
    for done, rounds in longer_runs(mpi, helped, 2, str(program), env):
        assert done.summary["total"]["messages_by_rendezvous"] == rounds, done.told()
        found = re.search(r"low (\d+) high (\d+)", done.out)
        assert found, done.told()
        low, high = map(int, found.groups())
        if low or high:
            return {name for name, count in (("low", low), ("high", high)) if count}
    pytest.fail(f"not seen\n{done.told()}")


HINTS = pytest.mark.parametrize(("hint", "first"), [("lo-to-hi", "high"), ("hi-to-lo", "low")])
MADE = ["set_info", "dup", "split", "graph", "adjacent graph"]


@HINTS
@pytest.mark.parametrize("made", MADE)
def test_a_communicator_has_the_order_however_it_gets_the_hint(
    mpi: MpiBuild, helped: Arm, made: str, hint: str, first: str
) -> None:
    env = {"MH_MEMORY": "cma", "HINT": hint, "MADE": made}
    assert ends_that_changed_first(mpi, without_heap(helped), env) == {first}


@HINTS
def test_the_setting_is_the_order_of_communicators_without_a_hint(
    mpi: MpiBuild, helped: Arm, hint: str, first: str
) -> None:
    env = {"MH_MEMORY": "cma", "MH_POST_COMM_ACCESS": hint, "HINT": "nonsense"}
    assert ends_that_changed_first(mpi, without_heap(helped), env) == {first}


@HINTS
@pytest.mark.parametrize(("how", "memory"), [("cells", "cells"), ("push", "cma")])
def test_what_goes_through_cells_and_what_a_sender_pushes_has_the_order(
    mpi: MpiBuild, helped: Arm, how: str, memory: str, hint: str, first: str
) -> None:
    env = {"MH_MEMORY": memory, "HINT": hint, "HOW": how}
    assert ends_that_changed_first(mpi, without_heap(helped), env) == {first}


@HINTS
def test_what_both_map_has_the_order(mpi: MpiBuild, helped: Arm, hint: str, first: str) -> None:
    env = {"MH_MEMORY": "mapped", "HINT": hint}
    assert ends_that_changed_first(mpi, with_heap(helped), env) == {first}
