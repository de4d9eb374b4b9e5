# SPDX-License-Identifier: BSD-3-Clause
"""Tests that MPI_File_open, also of a file that does not exist, ends no rendezvous on the node."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, compiled, run
from manyhands_bench.mpis import MpiBuild

SOURCE = Path(__file__).parent / "messages_after_files_are_opened.c"


@pytest.mark.under(*QUICK)
def test_a_message_goes_by_rendezvous_after_files_are_opened(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled(mpi, SOURCE.stem, [SOURCE])
    done = run(mpi, helped, 2, [str(program)], {})
    assert done.code == 0, done.told()
    done.expect_clean()
    assert done.summary is not None
    assert done.summary["total"]["messages_by_rendezvous"] == 1
    assert done.summary["total"]["messages_ended"] == 0
