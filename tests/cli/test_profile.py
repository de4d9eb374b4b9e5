# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh profile`: a run under a real launcher, stored profiles, and the reports about them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from manyhands.profiling import record
from manyhands.profiling.advice import advice, taken_over
from manyhands.profiling.show import COLUMNS, console, show

from .conftest import Build, Mh, environment

Compiled = Callable[[Build], Path]
MB = 1 << 20


def call(name: str, rank: int, seconds: float, transfer_s: float, **more: Any) -> dict[str, Any]:
    row = {"rank": rank, "call": name, "bytes_at_most": MB, "contiguous": True, "calls": 10}
    return {**row, "bytes": 10 * MB, "seconds": seconds, "transfer_s": transfer_s, **more}


def summary(**counts: Any) -> dict[str, Any]:
    total = {
        "messages_by_rendezvous": 0,
        "bytes_by_rendezvous": 0,
        "others_bytes": 0,
        "collectives_direct": 0,
        "one_sided_operations": 0,
        "messages_exchanged": 0,
        "heap_peak_bytes": 0,
        "bytes_outside_heap": 0,
        "loops": {"units_by_others": 0, "regions_shared": 0},
    }
    return {"not_helping_because": "", "total": {**total, **counts}}


def stored(*calls: dict[str, Any], late: float = 0, **counts: Any) -> dict[str, Any]:
    """Returns a profile of two ranks and ten seconds, in which rank 0 waits for rank 1."""
    ranks = []
    for rank in (0, 1):
        own = [row for row in calls if row["rank"] == rank]
        inside = sum(row["seconds"] for row in own)
        transfer = sum(row["transfer_s"] for row in own)
        times = {"mpi_s": inside, "transfer_s": transfer, "waiting_s": inside - transfer}
        ranks.append({"rank": rank, "node": 0, "init_s": 0.1, "elapsed_s": 10.0, **times})
    waits = [{"rank": 1, "waiter": 0, "seconds": late}] if late else []
    return {
        "format": record.FORMAT,
        "ranks": ranks,
        "calls": list(calls),
        "late": waits,
        "summary": summary(**counts),
    }


def parsed(*calls: dict[str, Any], late: float = 0, **counts: Any) -> record.Profile:
    return record.parse(json.dumps(stored(*calls, late=late, **counts)))


def test_rows_of_ranks_are_summed_the_longest_first() -> None:
    profile = parsed(
        call("MPI_Send", 0, 1.0, 1.0), call("MPI_Recv", 0, 3.0, 1.0), call("MPI_Send", 1, 1.5, 0.5)
    )
    assert [(row.call, row.seconds, row.calls) for row in profile.rows] == [
        ("MPI_Recv", 3.0, 10),
        ("MPI_Send", 2.5, 20),
    ]
    assert (profile.mpi_s, profile.transfer_s, profile.waiting_s) == (2.75, 1.25, 1.5)


def test_waiting_for_a_rank_names_it_and_the_setting() -> None:
    (text,) = advice(parsed(call("MPI_Recv", 0, 2.0, 0.1), late=1.9))
    assert text.startswith("9.5 % of the run is waiting for rank 1: ")
    assert "MH_OPENMP=1" in text
    loops = {"units_by_others": 0, "regions_shared": 3}
    (text,) = advice(parsed(call("MPI_Recv", 0, 2.0, 0.1), late=1.9, loops=loops))
    assert "3 shared loops" in text


def test_transfer_of_long_messages_names_the_heap_unless_it_is_there() -> None:
    messages = call("MPI_Sendrecv", 0, 1.0, 1.0)
    assert "shared heap" in advice(parsed(messages))[0]
    inside = {"heap_peak_bytes": MB, "bytes_by_rendezvous": 8 * MB}
    assert "heap" not in advice(parsed(messages, **inside))[0]
    (text,) = advice(parsed(messages, **inside, bytes_outside_heap=2 * MB))
    assert "25.0 % of the bytes by rendezvous" in text and "MH_HEAP=on" in text
    assert "shared heap" not in advice(parsed(call("MPI_Send", 0, 1.0, 1.0, bytes_at_most=256)))[0]


def test_transfer_of_collectives_says_who_moves_the_data() -> None:
    alltoall = call("MPI_Alltoall", 0, 1.0, 1.0)
    assert "The MPI library moved" in advice(parsed(alltoall))[0]
    assert "ranks already carry out" in advice(parsed(alltoall, collectives_direct=9))[0]
    plain = stored(alltoall)
    plain["summary"] = {**summary(), "not_helping_because": "MH_ENABLE=0"}
    assert "Without --plain" in advice(record.parse(json.dumps(plain)))[0]


def test_a_program_that_is_hardly_in_mpi_has_little_to_gain() -> None:
    (text,) = advice(parsed(call("MPI_Send", 0, 0.1, 0.1)))
    assert "little to gain" in text


def test_what_was_taken_over_is_told() -> None:
    assert taken_over(parsed(call("MPI_Send", 0, 1, 1))).startswith("nothing: no message")
    done = taken_over(
        parsed(
            messages_by_rendezvous=7,
            bytes_by_rendezvous=7 * MB,
            messages_exchanged=4,
            collectives_direct=3,
        )
    )
    assert done == (
        "7 messages (7 MB) by rendezvous; 3 collective calls; "
        "4 exchanged messages left to the MPI library"
    )


def test_the_tables_fit_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    calls = [
        call("MPI_Neighbor_allgatherv", rank, 1234.5, 1000.25, calls=10**9, contiguous=False)
        for rank in (0, 1)
    ]
    show(parsed(*calls, call("MPI_Barrier", 0, 1, 0), late=1), console(), 1)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= COLUMNS
    assert "1 more rows: mh profile --top 2" in printed
    assert "MPI_Neighbor_allgatherv" in printed and "to 1 MB, gaps" in printed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "it is not valid JSON"),
        ("[]", '"format" is not'),
        ('{"format": "x"}', '"format" is not'),
    ],
)
def test_a_file_that_is_no_profile_is_refused(
    mh: Mh, tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "stored.json").write_text(text)
    result = mh("profile", "--from", "stored.json")
    assert result.returncode == 1
    assert "stored.json is not a profile" in result.stderr and reason in result.stderr


def test_a_stored_profile_is_shown(mh: Mh, tmp_path: Path) -> None:
    (tmp_path / "stored.json").write_text(json.dumps(stored(call("MPI_Send", 0, 1.0, 1.0))))
    result = mh("profile", "--from", "stored.json")
    assert result.returncode == 0, result.stderr
    assert "2 ranks on 1 node, 10.00 s, 5.0 % in MPI" in result.stdout


def test_a_run_is_profiled_with_and_without_help(
    mh: Mh, library: Path, compiled: Compiled, build: Build
) -> None:
    program = compiled(build)
    for options in ([], ["--plain"]):
        result = mh("profile", *options, "--json", "run.json", "-n", "2", str(program))
        assert result.returncode == 0, result.stderr
        assert "rank 1 of 2" in result.stdout  # the program's own output
        assert "MPI_Barrier" in result.stdout
        assert ("MH_ENABLE=0" in result.stdout) == bool(options)
        assert "stored as run.json" in result.stderr


def test_the_exit_code_is_the_programs(mh: Mh, library: Path, tmp_path: Path) -> None:
    (tmp_path / "mh-profile.json").write_text("of an earlier run")
    result: subprocess.CompletedProcess[str] = mh("profile", "-n", "1", "sh", "-c", "exit 3")
    assert result.returncode == 3
    assert "the run wrote no profile" in result.stderr
    assert not (tmp_path / "mh-profile.json").exists()


def test_a_signal_ends_the_program_in_its_own_way(library: Path, tmp_path: Path) -> None:
    """The launcher gets the signal, and the command waits for the end of the launcher."""
    launcher = tmp_path / "mpiexec.hydra"
    launcher.write_text(
        "#!/bin/sh\ntrap 'sleep 0.3; echo saved; exit 5' TERM\necho started\n"
        "while :; do sleep 0.05; done\n"
    )
    launcher.chmod(0o755)
    words = ["profile", "--mpiexec", str(launcher), "-n", "1", "true"]
    with subprocess.Popen(
        [sys.executable, "-m", "manyhands.main", *words],
        env=environment(),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.terminate()
        assert process.stdout.read() == "saved\n"
    assert process.returncode == 5


def test_a_rank_is_told_how_to_profile(mh: Mh, library: Path) -> None:
    result = mh("profile", "-n", "1", "true", PMI_RANK="0")
    assert result.returncode == 2
    assert "MH_PROFILE=mh-profile.json" in result.stderr


def test_without_a_program_the_command_is_shown(mh: Mh) -> None:
    result = mh("profile", "-n", "2")
    assert result.returncode == 2
    assert "no program given: mh profile -n 2 ./app" in result.stderr


def test_a_profile_that_cannot_be_written_is_refused_before_the_run(
    mh: Mh, library: Path, tmp_path: Path
) -> None:
    result = mh("profile", "--json", "results/p.json", "-n", "1", "touch", "ran")
    assert result.returncode == 2
    assert "there is no directory results" in result.stderr
    assert not (tmp_path / "ran").exists()


def test_a_misspelt_program_leaves_the_last_profile(mh: Mh, library: Path, tmp_path: Path) -> None:
    (tmp_path / "mh-profile.json").write_text("of an earlier run")
    assert mh("profile", "-n", "1", "./absent").returncode == 127
    assert (tmp_path / "mh-profile.json").read_text() == "of an earlier run"


def test_a_file_that_is_no_text_is_no_profile(mh: Mh, tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(b"\x7fELF\xff\xfe")
    result = mh("profile", "--from", "./app")
    assert result.returncode == 1
    assert result.stderr.startswith("manyhands: app is not a profile: ")


def test_a_shell_of_a_slurm_job_starts_ranks(mh: Mh, library: Path, tmp_path: Path) -> None:
    launcher = tmp_path / "mpiexec.hydra"
    launcher.write_text("#!/bin/sh\necho launched\n")
    launcher.chmod(0o755)
    slurm = {"SLURM_PROCID": "0", "SLURM_STEP_ID": "0"}
    assert mh("profile", "--mpiexec", launcher, "-n", "1", "true", **slurm).stdout == "launched\n"
    in_rank = mh("profile", "true", **slurm)
    assert in_rank.returncode == 2
    assert "Under another launcher" in in_rank.stderr
