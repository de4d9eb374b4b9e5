# SPDX-License-Identifier: BSD-3-Clause
"""Rendezvous ends on a node after a truncated receive. Results are right either way, so only this
test shows it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, compiled, run
from manyhands_bench.mpis import MpiBuild

NAME = "a_freed_receive_gets_too_long_a_message"


@pytest.mark.under(*QUICK)
def test_a_freed_receive_that_is_cut_ends_rendezvous(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled(mpi, NAME, [Path(__file__).parent / f"{NAME}.c"])
    done = run(mpi, helped, 2, [str(program)], {})
    assert done.code == 0, done.told()
    assert done.summary is not None
    assert done.summary["total"]["messages_by_rendezvous"] == 1
