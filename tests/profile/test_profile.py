# SPDX-License-Identifier: BSD-3-Clause
"""Tests the profile of a program whose calls and late rank are known, under every MPI.

A rank sleeps once the other ranks are about to wait for it. The program prints how long its first
rank has waited, and the profile must agree.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from harness.launch import Arm, compiled, run
from manyhands_bench.mpis import MpiBuild

HERE = Path(__file__).parent
WAITED = 0.9  # the least part of a wait that the profile must find
ROUNDS, LATE_S, LONG, COLUMNS_BYTES = 20, 0.005, 1 << 20, 64 * 64 * 8
LIMIT_S = 60


def profiled(
    mpi: MpiBuild, arm: Arm, tmp_path: Path, source: Path, ranks: int, **env: str
) -> dict[str, Any]:
    return profiled_run(mpi, arm, tmp_path, source, ranks, **env)[0]


def profiled_run(
    mpi: MpiBuild, arm: Arm, tmp_path: Path, source: Path, ranks: int, **env: str
) -> tuple[dict[str, Any], str]:
    """Returns the profile and what the program printed."""
    program = compiled(mpi, source.stem, [source])
    file = tmp_path / "profile.json"
    done = run(mpi, arm, ranks, [str(program)], {"MH_PROFILE": str(file), **env}, LIMIT_S)
    assert done.code == 0, done.told()
    done.expect_clean()
    return json.loads(file.read_text()), done.out


def calls(profile: dict[str, Any], rank: int) -> dict[tuple[str, int, bool], dict[str, Any]]:
    """Returns the rows of a rank, by call, size class and whether the data is contiguous."""
    return {
        (row["call"].removeprefix("MPI_"), row["bytes_at_most"], row["contiguous"]): row
        for row in profile["calls"]
        if row["rank"] == rank
    }


def late_s(profile: dict[str, Any], late: int) -> float:
    return sum(row["seconds"] for row in profile["late"] if row["rank"] == late)


def check_late_rank(profile: dict[str, Any], ranks: int, late: dict[str, float]) -> None:
    """`late`: the seconds that rank 0 waited for rank 1 in each kind of call."""
    assert [rank["rank"] for rank in profile["ranks"]] == list(range(ranks))
    first = calls(profile, 0)
    exchange = first["Sendrecv", LONG, True]
    assert (exchange["calls"], exchange["bytes"]) == (ROUNDS, ROUNDS * LONG)
    assert first["Allreduce", 256, True]["calls"] == ROUNDS
    assert first["Irecv", 64 << 10, False]["bytes"] == ROUNDS * COLUMNS_BYTES
    assert first["Wait", 64 << 10, False]["calls"] == ROUNDS
    assert calls(profile, 1)["Send", 64 << 10, False]["bytes"] == ROUNDS * COLUMNS_BYTES
    # Timing decides how often the program polls, so the number of calls is not checked. Some of the
    # time of waiting passes between the polls, outside of MPI.
    assert any(call == "Iprobe" for call, _, _ in first)
    for call, seconds in late.items():
        waited = sum(
            row["seconds"] - row["transfer_s"] for (n, _, _), row in first.items() if n == call
        )
        assert seconds > 0, "rank 1 was never late"
        assert waited >= WAITED * seconds, (call, waited, seconds)
    assert late_s(profile, 1) >= WAITED * sum(late.values())
    assert profile["ranks"][0]["elapsed_s"] >= 4 * ROUNDS * LATE_S
    for rank in profile["ranks"]:
        assert rank["mpi_s"] == pytest.approx(rank["transfer_s"] + rank["waiting_s"])
        assert 0 <= rank["mpi_s"] <= rank["elapsed_s"] * 1.001
        assert rank["init_s"] > 0


@pytest.mark.parametrize("enable", ["1", "0"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_the_late_rank_is_found(
    mpi: MpiBuild, helped: Arm, tmp_path: Path, ranks: int, enable: str
) -> None:
    source = HERE / "late_rank.c"
    profile, printed = profiled_run(mpi, helped, tmp_path, source, ranks, MH_ENABLE=enable)
    check_late_rank(profile, ranks, json.loads(printed))
    why_not = profile["summary"]["not_helping_because"]
    assert (why_not == "MH_ENABLE=0") == (enable == "0")


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_call_is_profiled_without_a_change(
    mpi: MpiBuild, helped: Arm, tmp_path: Path, ranks: int
) -> None:
    source = HERE.parent / "mpi" / "all_kinds_of_calls.c"
    profile = profiled(mpi, helped, tmp_path, source, ranks)
    names = {row["call"] for row in profile["calls"]}
    assert {"MPI_Send", "MPI_Recv", "MPI_Barrier", "MPI_Bcast", "MPI_Put"} <= names


def test_threads_are_profiled_together(mpi: MpiBuild, helped: Arm, tmp_path: Path) -> None:
    source = HERE.parent / "mpi" / "thread_levels.c"
    for _ in range(3):  # threads race to look up a communicator
        profile = profiled(mpi, helped, tmp_path, source, 2, LEVEL="3")
        assert {row["rank"] for row in profile["calls"]} == {0, 1}


def test_a_rank_alone_has_a_profile(mpi: MpiBuild, helped: Arm, tmp_path: Path) -> None:
    source = HERE / "alone.c"
    profile = profiled(mpi, helped, tmp_path, source, 1)
    assert calls(profile, 0)["Barrier", 256, True]["calls"] == 3
    assert profile["late"] == []


def test_ranks_of_other_nodes_count_as_inside(mpi: MpiBuild, helped: Arm, tmp_path: Path) -> None:
    profile = profiled(mpi, helped, tmp_path, HERE / "late_rank.c", 2, MH_FAKE_NODES="2")
    assert {rank["node"] for rank in profile["ranks"]} == {0, 1}
    assert profile["late"] == []


def test_a_file_that_cannot_be_written_is_said(mpi: MpiBuild, helped: Arm, tmp_path: Path) -> None:
    program = compiled(mpi, "alone", [HERE / "alone.c"])
    env = {"MH_PROFILE": str(tmp_path / "no" / "profile.json")}
    done = run(mpi, helped, 1, [str(program)], env, LIMIT_S)
    assert done.code == 0, done.told()
    assert "cannot write MH_PROFILE=" in done.err, done.told()
