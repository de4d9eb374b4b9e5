# SPDX-License-Identifier: BSD-3-Clause
"""Tests the trace of programs whose messages are known, under the MPIs with quick launchers."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, Run, compiled, run, without_heap
from manyhands.trace import findings, page
from manyhands.trace.run import Run as Traced
from manyhands.trace.run import read
from manyhands_bench.mpis import MpiBuild

HERE = Path(__file__).parent
MPI = HERE.parent / "mpi"
LIMIT_S = 60
LENGTH, ROUNDS = 4 << 20, 12  # constants of one_long_message_while_all_others_wait.c

pytestmark = pytest.mark.under(*QUICK)


def traced(
    mpi: MpiBuild, arm: Arm, folder: Path, source: Path, ranks: int, **env: str
) -> tuple[Run, Traced]:
    program = compiled(mpi, source.stem, [source])
    done = run(mpi, arm, ranks, [str(program)], {"MH_TRACE": str(folder), **env}, LIMIT_S)
    return done, read(folder)


@pytest.mark.parametrize("kind", ["contiguous", "scattered"])
def test_the_numbers_are_those_of_the_summary(
    mpi: MpiBuild, helped: Arm, tmp_path: Path, kind: str
) -> None:
    source = MPI / "one_long_message_while_all_others_wait.c"
    env = {"MH_CORES": "3", "TYPE": kind, "MH_HELP_THRESHOLD": "1M"}
    done, found = traced(mpi, without_heap(helped), tmp_path / "t", source, 3, **env)
    assert done.code == 0, done.told()
    done.expect_clean()
    assert found.complete and found.lost == 0
    assert found.profile is not None
    assert done.summary is not None
    total = done.summary["total"]
    sent = found.total("sent")
    assert (sent.events, sent.bytes) == (ROUNDS, ROUNDS * LENGTH)
    assert (sent.events, sent.bytes) == (
        total["messages_by_rendezvous"],
        total["bytes_by_rendezvous"],
    )
    assert found.total("helped").bytes == total["others_bytes"]
    assert found.total("on_lent_core").bytes == total["bytes_on_lent_cores"]
    assert found.total("lent").count == total["loops"]["units_lent"]
    assert sum(found.helped_bytes.values()) == total["others_bytes"]
    assert sum(messages for messages, _ in found.paths.values()) == ROUNDS
    for pair in done.summary["helped"]:
        assert found.helped_bytes[pair["helper"], pair["victim"]] == pair["bytes"]
    mpi_s = sum(rank.mpi_s for rank in found.ranks)
    # Each rank measures the length of its clock ticks by itself. The profile uses this length, the
    # trace uses that of the host's first rank, so their times differ a little.
    assert mpi_s == pytest.approx(sum(rank.mpi_s for rank in found.profile.ranks), rel=1e-3)
    assert "MPI_Recv" in page.html([found])


def test_a_killed_job_leaves_a_trace(mpi: MpiBuild, helped: Arm, tmp_path: Path) -> None:
    done, found = traced(mpi, helped, tmp_path / "t", HERE / "killed.c", 2)
    assert done.code != 0
    assert not found.complete
    assert found.profile is None
    assert [rank.rank for rank in found.ranks] == [0, 1]
    calls = {row.call: row.calls for row in found.calls}
    assert calls["MPI_Send"] == calls["MPI_Recv"] == 20
    assert "killed or still runs" in findings.paragraph(found)
    assert "Timeline" in page.html([found])


def test_a_trace_works_without_help(mpi: MpiBuild, helped: Arm, tmp_path: Path) -> None:
    source = HERE.parent / "profile" / "late_rank.c"
    done, found = traced(mpi, helped, tmp_path / "t", source, 2, MH_ENABLE="0")
    assert done.code == 0, done.told()
    assert found.complete
    assert found.late_s[1] > 0  # rank 1 sleeps; on a busy machine, rank 0 may be late, too
    assert findings.refusals(found)[0] == ("everything", "MH_ENABLE=0")


def test_a_folder_that_cannot_be_made_is_said_once(
    mpi: MpiBuild, helped: Arm, tmp_path: Path
) -> None:
    program = compiled(mpi, "alone", [HERE.parent / "profile" / "alone.c"])
    env = {"MH_TRACE": str(tmp_path / "no" / "trace")}
    done = run(mpi, helped, 2, [str(program)], env, LIMIT_S)
    assert done.code == 0, done.told()
    assert done.err.count("cannot write MH_TRACE=") == 1, done.told()
