# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh top` on a real job: ranks that compute and wait, the live view in a terminal, refusals.

The job ends when a test makes a file, so no test depends on the speed of the machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.launch import Arm, compiled, run
from manyhands.commands import top as command
from manyhands.live import processes, screen
from manyhands.live.jobs import Job, Search
from manyhands_bench.mpis import MpiBuild
from rich.console import Console

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MH = [sys.executable, "-m", "manyhands.main", "top"]
READER = ROOT / "build" / "bin" / "mh-top"
RESULT = {"rank 0 sum 1", "rank 1 sum 1"}
LIMIT_S = 60
Look = Callable[[int], None]  # gets the process number of the launcher

pytestmark = pytest.mark.skipif(not READER.exists(), reason="mh-top is not built")


def top(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MH, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, cwd="/"
    )


def until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.02)
    raise AssertionError(f"it never came: {what}")


def found_jobs() -> list[dict[str, Any]]:
    out = subprocess.run([READER, "find"], capture_output=True, text=True, check=True).stdout
    return [job for job in map(json.loads, out.splitlines()) if "pid" in job]


def parents(pid: int) -> list[int]:
    found = [pid]
    while found[-1] > 1:
        found.append(processes.parent(found[-1]))
    return found


def job_of(launcher: int) -> dict[str, Any] | None:
    """Returns the job that this launcher started, once its first rank has joined."""
    jobs = [job for job in found_jobs() if launcher in parents(job["pid"])]
    return jobs[0] if jobs and jobs[0].get("age_s") else None


def watched(mpi: MpiBuild, arm: Arm, tmp_path: Path, waits_in: str, look: Look) -> None:
    """Runs the job while `look` inspects it. The output must be that of a job without `mh top`."""
    ready = tmp_path / "go on"

    def meddle(process: subprocess.Popen[str], _mark: str) -> None:
        try:
            until(lambda: job_of(process.pid), "the job")
            look(process.pid)
        finally:
            ready.touch()

    program = compiled(mpi, "late", [HERE / "late.c"])
    done = run(mpi, arm, 2, [str(program), waits_in, str(ready)], {}, LIMIT_S, meddle)
    assert done.code == 0, done.told()
    assert set(done.out.splitlines()) == RESULT, done.told()
    assert done.err == "", done.told()
    done.expect_clean()


@pytest.mark.under("mpich4")
@pytest.mark.parametrize("waits_in", ["barrier", "message"])
def test_the_late_rank_computes_and_the_other_waits(
    mpi: MpiBuild, helped: Arm, tmp_path: Path, waits_in: str
) -> None:
    def look(launcher: int) -> None:
        def waits() -> dict[str, Any] | None:
            seen = json.loads(top(launcher, "--json", "--interval", 0.2).stdout)
            return seen if seen["ranks"][0]["waiting"] > 0.9 else None

        seen = until(waits, "rank 0 waits")
        first, late = seen["ranks"]
        assert seen["format"] == "manyhands-top-1"
        assert [first["rank"], late["rank"]] == [0, 1]
        assert (first["state"], late["state"]) == ("waits", "computes")
        assert late["waiting"] < 0.1
        where = ("barrier", [1]) if waits_in == "barrier" else (None, [])
        assert (first["at"], first["late"]) == where
        assert seen["program"].startswith(f"late {waits_in}")
        assert seen["launcher"] in parents(first["pid"])
        assert 0 < seen["efficiency"] <= 1

    watched(mpi, helped, tmp_path, waits_in, look)


# --- the live view ----------------------------------------------------------------------------


class Terminal:
    """`mh top` in a pseudo-terminal of 80 columns and 24 lines."""

    def __init__(self, *words: object) -> None:
        self.keyboard, self.screen = pty.openpty()
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.screen)
        self.shown = ""
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *MH, *map(str, words)],  # Ctrl-C reaches `mh top`
            stdin=self.screen,
            stdout=self.screen,
            stderr=self.screen,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "", "LINES": ""},
        )

    def shows(self, text: str) -> bool:
        if select.select([self.keyboard], [], [], 0.05)[0]:
            self.shown += os.read(self.keyboard, 1 << 16).decode(errors="replace")
        return re.search(text, self.shown) is not None

    def press(self, key: bytes) -> None:
        os.write(self.keyboard, key)

    def code(self) -> int:
        until(lambda: self.shows("$^") or self.process.poll() is not None, "the end of mh top")
        self.shows("$^")
        return self.process.wait(LIMIT_S)

    def is_as_before(self) -> bool:
        """Returns whether the terminal has its modes, its first screen and its cursor back."""
        restored = termios.tcgetattr(self.screen) == self.before
        left = self.shown.rfind("\x1b[?1049l") > self.shown.rfind("\x1b[?1049h") >= 0
        return restored and left and self.shown.rfind("\x1b[?25h") > self.shown.rfind("\x1b[?25l")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.keyboard)
        os.close(self.screen)


@contextlib.contextmanager
def terminal(*words: object) -> Iterator[Terminal]:
    opened = Terminal(*words)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.slow  # ending the view may take over a minute, for an unknown reason
@pytest.mark.under("mpich4")
def test_the_live_view_leaves_the_terminal_as_it_was(
    mpi: MpiBuild, helped: Arm, tmp_path: Path
) -> None:
    def look(launcher: int) -> None:
        for key in (b"q", b"\x03"):
            with terminal(launcher, "--interval", 0.1) as view:
                until(lambda view=view: view.shows(r"0 +\d+ .*waits for 1"), "the table")
                assert "computes" in view.shown
                view.press(key)
                assert view.code() == 0
                assert view.is_as_before(), repr(view.shown[-200:])

    watched(mpi, helped, tmp_path, "barrier", look)


@pytest.mark.slow  # ending the view may take over a minute, for an unknown reason
@pytest.mark.under("mpich4")
def test_the_end_of_the_job_ends_the_view(mpi: MpiBuild, helped: Arm, tmp_path: Path) -> None:
    views = []

    def look(launcher: int) -> None:
        views.append(Terminal(launcher, "--interval", 0.1))
        until(lambda: views[0].shows("computes"), "the table")

    try:
        watched(mpi, helped, tmp_path, "message", look)
        assert views[0].code() == 0
        assert views[0].shows("the job has ended")
        assert views[0].is_as_before()
    finally:
        for view in views:
            view.close()


# --- no job to show ---------------------------------------------------------------------------

# A Python program that holds a memfd with the name and the seals of a node segment, and in it 4711
# as the version of the segment's layout.
OTHER_VERSION = """
import fcntl, os, struct, sys
fd = os.memfd_create("manyhands", os.MFD_ALLOW_SEALING)
os.write(fd, struct.pack("<QIIQ", 0x6D616E7968616E64, 4711, 2, 4096).ljust(1 << 20, b"\\0"))
fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_job_of_another_version_is_refused_in_words() -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", OTHER_VERSION], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline()
        refused = top(holder.pid, "--once")
    finally:
        holder.communicate()
    assert refused.returncode == 1 and refused.stdout == ""
    assert "another version of Manyhands (segment layout 4711" in refused.stderr


def test_a_process_that_is_no_rank_is_explained() -> None:
    own = top(os.getpid(), "--once")
    assert own.returncode == 1
    assert f"process {os.getpid()} is not a rank or the launcher of a visible job" in own.stderr
    none = top(1 << 22, "--once")
    assert none.returncode == 1 and "is no process" in none.stderr


def choose(monkeypatch: pytest.MonkeyPatch, found: list[Job]) -> int:
    """Returns the exit code of `mh top --once` while these jobs run."""
    monkeypatch.setattr(command.jobs, "find", lambda _reader: Search(found, 0))
    with pytest.raises(SystemExit) as ended:
        command.top(None, True, False, 0.1)
    return int(ended.value.code or 0)


def test_without_a_job_the_reason_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert choose(monkeypatch, []) == 1
    assert "none of your jobs on this node uses Manyhands" in capsys.readouterr().err


def test_several_jobs_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Job(4000, 960, age_s=3700, ranks=[0, 1], pids=[4000, 4001], program="./one")
    second = Job(5000, 960, age_s=7, ranks=[0, 1], program="./two", launcher=4990)
    assert choose(monkeypatch, [first, second]) == 2
    shown = capsys.readouterr()
    assert re.search(r"^ +4000 +no launcher +2 ranks +1 h 1 min +\./one$", shown.out, re.MULTILINE)
    assert re.search(r"^ +5000 .*\./two$", shown.out, re.MULTILINE)
    assert "mh top PID" in shown.err
    assert first.is_meant_by("4001") and second.is_meant_by("4990")


# --- the table of ranks -----------------------------------------------------------------------


def rank(number: int, **changes: Any) -> dict[str, Any]:
    rates = dict.fromkeys(
        "messages bytes copied_bytes units_given units_received collectives".split(), 123456789
    )
    fields: dict[str, Any] = {"rank": number, "pid": 4194303, "state": "computes", "at": None}
    fields |= {"late": [], "helps": [], "helped_by": [], "waiting": 1, "helping": 1}
    return {**fields, "per_s": rates, **changes}


def interval(ranks: list[dict[str, Any]]) -> dict[str, Any]:
    times = {"seconds": 1, "age_s": 732, "efficiency": 0.71, "efficiency_with_help": 0.83}
    return {**times, "heap_bytes": 1234567890, "ranks": ranks}


def drawn(view: screen.View) -> list[str]:
    with view.console.capture() as shown:
        view.console.print(view.drawn())
    return shown.get().splitlines()


def test_the_table_fits_80_columns_and_scrolls_over_many_ranks() -> None:
    many = list(range(1000, 1020))
    ranks = [rank(number) for number in range(1024)]
    ranks[1] = rank(1, state="waits", late=many)
    ranks[2] = rank(2, state="lends", helps=many)
    ranks[3] = rank(3, helped_by=many)
    job = Job(
        1, 2, program="./app " + "word " * 40, launcher=4194303, launcher_name="mpiexec.hydra"
    )
    view = screen.View(job, Console(width=80, height=24, highlight=False))
    view.interval = interval(ranks)
    first = drawn(view)
    assert len(first) <= 24 and max(map(len, first)) <= 80
    assert re.search("waits for 1000 \\+19 +100% 100%  123M", first[6]), first[6]
    assert "lends to 1000 +19" in first[7] and "helped by 1000 +19" in first[8]
    view.press(b"\x1b[B")
    assert drawn(view)[5].split()[0] == "1"
    for _ in range(100):
        view.press(b" ")
    assert "1008 to 1024 of 1024" in drawn(view)[-1]
