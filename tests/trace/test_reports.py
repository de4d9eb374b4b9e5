# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh report` on traces whose events are known."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from manyhands.trace import export, findings, page
from manyhands.trace.files import NotATrace, RankFile
from manyhands.trace.run import read
from manyhands.trace.timeline import Segment, merged
from synthetic import call, event, write_rank

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a trace of ten seconds: rank 0 waits 4 s for rank 1, and helps rank 1 for 1 s."""
    first = [
        event("helped", 3.5, 1.0, bytes=1_000_000, peer=1),
        call(3.0, 1.0, 4.0, peer=1, bytes=500),
        event("copied", 8.0, 0.5, bytes=2_000_000, peer=1, detail=1),
    ]
    second = [
        event("sent", 7.9, 0, bytes=2_000_000, peer=0),
        event("left", 8.5, 0, bytes=70_000, detail=0),
        event("brief_calls", 9.0, 0.5, transfer_s=0.25, count=1000, call=0, bytes=8000),
    ]
    write_rank(tmp_path / "t", 0, 2, first, 10.0)
    write_rank(tmp_path / "t", 1, 2, second, 10.0)
    return tmp_path / "t"


def mh(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "manyhands.main", "report", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_sums_are_those_of_the_events(folder: Path) -> None:
    run = read(folder)
    assert run.complete
    assert run.elapsed_s == pytest.approx(10)
    first, second = run.ranks
    assert (first.transfer_s, first.waiting_s) == pytest.approx((1, 4))
    assert second.mpi_s == pytest.approx(0.25)  # without the time between its short calls
    assert run.helped_bytes == {(0, 1): 1_000_000}
    assert run.late_s == {1: pytest.approx(4)}
    assert run.paths == {"kernel": (1, 2_000_000)}
    assert [(row.call, row.calls) for row in run.calls] == [("MPI_Recv", 1), ("MPI_Send", 1000)]
    assert findings.refusals(run) == [("1 (70 KB)", "messages of an exchange: both ends were busy")]


def test_help_counts_as_work_in_one_of_the_two_efficiencies(folder: Path) -> None:
    run = read(folder)
    plain, helped = run.efficiency(with_help=False), run.efficiency(with_help=True)
    assert plain.parallel == pytest.approx((5 + 9.75) / 20)
    assert helped.parallel == pytest.approx((6 + 9.75) / 20)
    assert plain.parallel == pytest.approx(plain.load_balance * plain.communication)


def test_the_paragraph_says_what_the_job_did(folder: Path) -> None:
    text = findings.paragraph(read(folder))
    assert "2 ranks on 1 node ran for 10 s" in text
    assert "waiting mostly for rank 1" in text
    assert "1 message of 2 MB went by rendezvous" in text
    assert "copied 1 MB for other ranks" in text


def test_a_killed_rank_is_reported_as_far_as_it_came(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, 2, [call(0.5, 0.5, 1.0, peer=1)], None)
    run = read(tmp_path)
    assert not run.complete
    assert run.elapsed_s == pytest.approx(2)
    text = findings.paragraph(run)
    assert "The folder has traces of only 1 of 2 ranks." in text
    assert "killed or still runs" in text


def test_a_full_ring_keeps_the_latest_events_and_all_sums(tmp_path: Path) -> None:
    calls = [call(0.001 * i, 0.0005, 0, bytes=10) for i in range(100)]
    write_rank(tmp_path, 0, 1, calls, 1.0, capacity=64)
    run = read(tmp_path)
    assert run.lost == 36
    assert run.ranks[0].mpi_s == pytest.approx(0.05)
    assert run.total("call").bytes == 1000
    assert run.ranks[0].lane.calls[0].begin == pytest.approx(0.036)
    assert "36 events were overwritten" in findings.paragraph(run)


def test_an_event_that_was_never_completed_is_left_out(tmp_path: Path) -> None:
    path = write_rank(tmp_path, 0, 1, [call(0, 1, 0), call(2, 1, 0)], None)
    data = bytearray(path.read_bytes())
    data[8192 + 56 : 8192 + 64] = bytes(8)  # clears the number of the first event
    path.write_bytes(data)
    assert [each.begin for each in RankFile(path).events()] == [2]


@pytest.mark.parametrize("data", [b"", b"MHTRACE\0" + bytes(100), bytes(5000)])
def test_another_file_is_no_trace(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rank-0.mhtrace").write_bytes(data)
    with pytest.raises(NotATrace):
        read(tmp_path)
    done = mh(str(tmp_path))
    assert done.returncode == 1
    assert "MH_TRACE=FOLDER" in done.stderr


def test_files_of_an_earlier_larger_job_are_left_out(folder: Path) -> None:
    write_rank(folder, 5, 8, [], 1.0)
    path = folder / "rank-5.mhtrace"
    data = bytearray(path.read_bytes())
    data[64:72] = (1_600_000_000 * 10**9).to_bytes(8, "little")
    path.write_bytes(data)
    assert [rank.rank for rank in read(folder).ranks] == [0, 1]


def test_merged_segments_keep_their_sums_and_the_widest_gaps() -> None:
    begins = (0, 1.1, 5, 6.1, 20)
    segments = [Segment(at, at + 1, "MPI_Recv", transfer=1, bytes=5) for at in begins]
    few = merged(segments, 3)
    assert [(each.begin, each.end) for each in few] == [(0, 2.1), (5, 7.1), (20, 21)]
    assert sum(each.transfer for each in few) == 5
    assert sum(each.bytes for each in few) == 25


def spans(segments: list[Segment]) -> list[tuple[float, float, int | None]]:
    return [(round(each.begin, 6), round(each.end, 6), each.rank) for each in segments]


def test_a_rank_that_moves_is_present_on_two_cores(tmp_path: Path) -> None:
    first = [call(1, 0.5, 0, cpu=0), call(4, 0.5, 0, cpu=1), call(6, 0.5, 0, cpu=1)]
    write_rank(tmp_path, 0, 2, first, 10.0)
    write_rank(tmp_path, 1, 2, [call(2, 0, 3, cpu=1)], 9.0)
    zero, one = read(tmp_path).cores
    assert (zero.host, zero.cpu, one.cpu) == ("host", 0, 1)
    assert spans(zero.present) == [(0, 4, 0)]
    assert spans(one.present) == [(0, 9, 1), (4, 10, 0)]
    assert [each.rank for each in one.calls] == [1, 0, 0]


def test_a_lent_core_shows_its_borrower_which_does_not_move(tmp_path: Path) -> None:
    chunk = event("on_lent_core", 2, 1, bytes=100, cpu=1)
    write_rank(tmp_path, 0, 2, [call(1, 0.5, 0), chunk, call(4, 0.5, 0)], 5.0)
    write_rank(tmp_path, 1, 2, [call(1, 0, 3, cpu=1)], 5.0)
    zero, one = read(tmp_path).cores
    assert spans(zero.present) == [(0, 5, 0)]
    assert spans(one.present) == [(0, 5, 1)]
    assert spans(one.help) == [(2, 3, 0)]


def test_cores_have_no_rows_where_each_rank_has_a_core_to_itself(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_rank(tmp_path, rank, 2, [call(1, 1, 0, cpu=rank)], 5.0)
    run = read(tmp_path)
    assert run.cores == []
    assert "by core" not in page.html([run])


def test_the_page_needs_no_network_and_has_the_numbers(folder: Path) -> None:
    text = page.html([read(folder)])
    outside = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?[^"')\s>]+""", text)
    assert outside == []
    assert "http" not in text
    for wanted in ("MPI_Recv", "1 MB", "73.8 %", "78.8 %", "both ends were busy"):
        assert wanted in text
    assert "$" not in text.replace("$$", "")


def test_names_of_the_program_are_text_in_the_page(folder: Path) -> None:
    run = read(folder)
    run.calls[0].call = "<script>alert(1)</script>"
    assert "<script>alert" not in page.html([run])


def test_two_runs_are_compared(folder: Path, tmp_path: Path) -> None:
    for rank in (0, 1):
        write_rank(tmp_path / "after", rank, 2, [call(1, 1, 0)], 5.0)
    text = page.html([read(folder), read(tmp_path / "after")])
    assert "Before and after" in text
    assert "<td>wall time, s</td><td>10.000</td><td>5.000</td><td>0.50</td>" in text
    assert text.count("<canvas") == 2


def test_the_page_of_a_long_run_is_small(tmp_path: Path) -> None:
    for rank in range(16):
        calls = [call(0.3 * i, 0.1, 0.1, peer=(rank + 1) % 16, bytes=i) for i in range(2000)]
        write_rank(tmp_path, rank, 16, calls, 600.0, capacity=2048)
    text = page.html([read(tmp_path, most_segments=16_000)])
    assert len(text) < 1_000_000


def test_chrome_format_is_what_viewers_open(folder: Path, tmp_path: Path) -> None:
    """Checks the structure that the format demands. Perfetto itself is not available."""
    done = mh(str(folder), "--format", "chrome", "-o", str(tmp_path / "trace.json"))
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {each["ph"] for each in events} == {"M", "X"}
    spans = [each for each in events if each["ph"] == "X"]
    assert len(spans) == 6
    for each in spans:
        assert isinstance(each["pid"], int) and isinstance(each["tid"], int)
        assert each["ts"] >= 0 and each["dur"] >= 0
    recv = next(each for each in spans if each["name"] == "MPI_Recv")
    assert (recv["ts"], recv["dur"], recv["args"]["peer"]) == (3e6, 5e6, 1)
    named = {(each["name"], each["pid"]) for each in events if each["ph"] == "M"}
    assert {("process_name", 0), ("process_name", 1)} <= named


def test_csv_has_a_row_for_each_event(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(mh(str(folder), "--format", "csv").stdout)))
    assert tuple(rows[0]) == tuple(export.COLUMNS)
    helped = next(row for row in rows if row["kind"] == "helped")
    assert (helped["bytes"], helped["peer"]) == ("1000000", "1")
    assert float(helped["extent_s"]) == pytest.approx(1)


def test_json_has_the_sums(folder: Path) -> None:
    data = json.loads(mh(str(folder), "--format", "json").stdout)
    assert data["format"] == export.FORMAT
    assert data["helped"] == [{"helper": 0, "owner": 1, "bytes": 1_000_000}]
    assert data["ranks"][0]["totals"]["call"]["waiting_s"] == pytest.approx(4)


@pytest.mark.skipif(BROWSER is None, reason="no browser to open the page")
def test_a_browser_draws_the_timeline(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page.html([read(folder)]))
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/browser"]
    done = subprocess.run(
        [str(BROWSER), *options, "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert 'data-drawn="yes"' in done.stdout, done.stderr[-2000:]
