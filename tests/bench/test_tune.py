# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh tune`: decisions on invented measurements, the tune file, and a short run of the real
program.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from manyhands import settings
from manyhands.commands import tune
from manyhands.tuning import decide, file
from typer.testing import CliRunner

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM = CHECKOUT / "build" / "bin" / "mh-tune"
RUNNER = CliRunner()
APP = typer.Typer()
APP.command()(tune.tune)
K = 1 << 10


def transfer(size: int, plain: float, shared: dict[int, float]) -> list[decide.Line]:
    def line(way: str, chunk: int, ns: float) -> decide.Line:
        return {"kind": "transfer", "way": way, "bytes": size, "chunk": chunk, "samples": [ns]}

    ways = [line("readv", 0, plain), line("cells", 0, 2 * plain)]
    return ways + [line("shared", chunk, ns) for chunk, ns in shared.items()]


def saturation(*rates: float, numa: int = 0, guests: int = 0) -> list[decide.Line]:
    return [
        {"kind": "saturation", "numa": numa, "copiers": n, "guests": guests, "samples": [rate]}
        for n, rate in enumerate(rates, start=1)
    ]


def test_threshold_is_the_size_from_which_sharing_always_wins():
    lines = (
        transfer(32 * K, 10, {16 * K: 5})
        + transfer(64 * K, 10, {16 * K: 11})
        + transfer(128 * K, 20, {16 * K: 12})
        + transfer(256 * K, 40, {16 * K: 22})
    )
    assert decide.threshold(decide.transfers(lines)) == 128 * K


def test_a_gain_within_the_margin_does_not_count():
    lines = transfer(64 * K, 102, {16 * K: 100}) + transfer(128 * K, 150, {16 * K: 100})
    assert decide.threshold(decide.transfers(lines)) == 128 * K


def test_no_threshold_where_sharing_never_pays():
    lines = transfer(64 * K, 10, {16 * K: 20})
    assert decide.threshold(decide.transfers(lines)) is None
    assert "MH_THRESHOLD" not in decide.settings(lines + saturation(10, 18))


def test_eager_sizes_are_never_below_the_threshold():
    lines = transfer(8 * K, 10, {4 * K: 5}) + transfer(32 * K, 10, {4 * K: 5})
    assert decide.threshold(decide.transfers(lines)) == 32 * K


def test_the_smallest_chunk_among_equals_is_taken():
    (found,) = decide.transfers(transfer(64 * K, 99, {8 * K: 60, 16 * K: 51, 32 * K: 50}))
    assert found.chunk == 16 * K


def test_chunks_grow_with_the_message():
    lines = (
        transfer(64 * K, 99, {16 * K: 50, 32 * K: 60})
        + transfer(128 * K, 99, {16 * K: 60, 32 * K: 50})
        + transfer(256 * K, 99, {16 * K: 50, 32 * K: 60})
        + transfer(512 * K, 99, {16 * K: 60, 128 * K: 50})
    )
    rules = decide.chunk_table(decide.transfers(lines))
    assert decide.chunk_text(rules) == "0:16K,128K:32K,512K:128K"


def test_saturation_is_where_one_more_adds_less_than_five_per_cent():
    assert decide.saturate({0: [10, 19, 26, 26.5, 40]}) == 3
    assert decide.saturate({0: [10, 19, 26]}) == 3
    assert decide.saturate({0: [10, 19, 26], 1: [10, 10]}) == 1
    assert decide.saturate({}) is None


def test_one_core_decides_nothing():
    assert decide.settings(saturation(10)) == {}


def test_noise_is_ignored_by_quartiles():
    assert decide.low([5, 5, 5, 900, 5]) == 5
    assert decide.high([9, 9, 9, 1, 9]) == 9


def test_a_tune_file_keeps_what_is_not_ours():
    old = "# mine\nMH_STRATEGY = mixed\nMH_CHUNK = 1M\n"
    assert file.merged(old, {"MH_CHUNK": "0:64K"}, "new") == (
        "# mine\nMH_STRATEGY = mixed\nMH_CHUNK = 0:64K\n"
    )
    assert file.merged("", {"MH_CHUNK": "1"}, "new") == "# new\nMH_CHUNK = 1\n"


def test_the_tune_file_is_readable_by_all_and_lies_where_the_library_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("MH_TUNE_FILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = settings.tune_file()
    assert path == tmp_path / "manyhands" / f"{os.uname().nodename}.conf"
    file.write(path, {"MH_SATURATE": "2"}, "heading")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert path.read_text() == "# heading\nMH_SATURATE = 2\n"
    assert list(path.parent.iterdir()) == [path]


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Returns a program that replaces mh-tune and prints invented measurements."""
    lines = transfer(64 * K, 99, {16 * K: 50}) + saturation(10, 19)
    program = tmp_path / "measure"
    program.write_text(
        f"#!{sys.executable}\nimport json\nfor line in {lines!r}:\n    print(json.dumps(line))\n"
    )
    program.chmod(0o755)
    return program


def test_what_was_stored_and_how_to_undo_it_is_said(measured: Path, tmp_path: Path):
    stored = tmp_path / "host.conf"
    shown = RUNNER.invoke(APP, ["--program", str(measured), "--output", str(stored)])
    assert shown.exit_code == 0, shown.output
    assert f"stored in {stored}; to undo, delete that file" in shown.output
    *_, threshold, chunk, saturate = stored.read_text().splitlines()
    assert threshold == "MH_THRESHOLD = 64K"
    assert chunk == "MH_CHUNK = 0:16K"
    assert saturate == "MH_SATURATE = 2"


def test_a_dry_run_stores_nothing(measured: Path, tmp_path: Path):
    stored = tmp_path / "host.conf"
    arguments = ["--program", str(measured), "--output", str(stored), "--dry-run"]
    shown = RUNNER.invoke(APP, arguments)
    assert shown.exit_code == 0
    assert "MH_THRESHOLD = 64K" in shown.output
    assert "nothing was stored" in shown.output
    assert not stored.exists()


def test_a_place_that_cannot_be_written_is_an_error(measured: Path, tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    shown = RUNNER.invoke(APP, ["--program", str(measured), "--output", str(blocked / "x.conf")])
    assert shown.exit_code == 1
    assert "--output" in shown.stderr


def test_a_place_that_cannot_be_written_is_refused_before_the_measurement(tmp_path: Path):
    program, blocked = tmp_path / "measure", tmp_path / "file"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/measured\n")
    program.chmod(0o755)
    blocked.write_text("")
    shown = RUNNER.invoke(APP, ["--program", str(program), "--output", str(blocked / "x.conf")])
    assert f"{blocked} is not a directory" in shown.stderr
    assert not (tmp_path / "measured").exists()


def test_a_tune_file_keeps_what_is_no_utf_8(tmp_path: Path):
    path = tmp_path / "host.conf"
    path.write_bytes(b"# caf\xe9\nMH_CHUNK = 1M\n")
    file.write(path, {"MH_CHUNK": "64K"}, "heading")
    assert path.read_bytes() == b"# caf\xe9\nMH_CHUNK = 64K\n"


def test_a_failing_program_stores_nothing(tmp_path: Path):
    program, stored = tmp_path / "broken", tmp_path / "host.conf"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    shown = RUNNER.invoke(APP, ["--program", str(program), "--output", str(stored)])
    assert shown.exit_code == 1
    assert not stored.exists()


def test_with_other_numa_nodes_saturation_is_where_a_guest_adds_nothing():
    alone = saturation(10, 19, 26, 26.5)
    assert decide.settings(alone + saturation(18, 26, 26.9, 27, guests=1))["MH_SATURATE"] == "3"
    assert decide.settings(alone + saturation(10.2, 9, 9, 9, guests=1))["MH_SATURATE"] == "1"
    always = saturation(18, 26, 34, 40, guests=1)
    assert decide.settings(alone + always)["MH_SATURATE"] == "5", "more than there are cores"
    other = saturation(10, 11, 12, 13, numa=1) + saturation(20, 11, 12, 13, numa=1, guests=1)
    assert decide.settings(alone + always + other)["MH_SATURATE"] == "2"


@pytest.mark.skipif(not PROGRAM.exists(), reason="mh-tune is not built")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_the_real_program_measures_guests_of_another_numa_node(monkeypatch: pytest.MonkeyPatch):
    cpus = sorted(os.sched_getaffinity(0))
    monkeypatch.setenv("HWLOC_SYNTHETIC", f"node:2 core:{cpus[-1]} pu:1")
    done = subprocess.run([PROGRAM, "--quick"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    plan, *lines = [json.loads(text) for text in done.stdout.splitlines()]
    if len({numa for _, numa in plan["cpus"]}) < 2:
        pytest.skip("the two cores are one with two hardware threads")
    assert plan["lines"] == len([line for line in lines if line["kind"] != "refused"])
    measured = decide.saturation(lines)
    guests = decide.saturation(lines, guests=1)
    assert {numa: len(rates) for numa, rates in guests.items()} == {
        numa: len(rates) for numa, rates in measured.items()
    }
    shown = RUNNER.invoke(APP, ["--quick"])
    assert shown.exit_code == 0, shown.output
    assert "with a guest" in shown.output


@pytest.mark.skipif(not PROGRAM.exists(), reason="mh-tune is not built")
def test_the_real_program_measures_every_table():
    shown = RUNNER.invoke(APP, ["--quick"])
    assert shown.exit_code == 0, shown.output
    assert "Copying 8 MB in chunks" in shown.output
    assert "Cores of a NUMA node" in shown.output
    if len(os.sched_getaffinity(0)) > 1:
        assert "One message between two cores" in shown.output
    assert "nothing was stored" in shown.output
