# SPDX-License-Identifier: BSD-3-Clause
"""Tests every command with standard streams that are closed, full, or a pipe without a reader.

The output of the command is then lost, and standard error says so. `mh run` nevertheless starts its
program, with the same streams.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from manyhands_bench import host

from .conftest import MH, environment

SIGPIPE_STATUS = 128 + signal.SIGPIPE
PRINTING = [
    "--version",
    "--help",
    "run --help",
    "run --dry-run sh",
    "doctor",
    "doctor --json",
    "doctor sh",
    "config",
    "config --all",
    "config --json",
    "preload",
    "bench --list",
    "bench --help",
    "bench --from stored.json",
    "bench --from stored.json --compare",
    "demo --help",
    "tune --help",
    "tune --program ./measures --dry-run",
    "simulate --help",
    "simulate --cores 48 --iterations 1",
]
Usual = Callable[[str], subprocess.CompletedProcess[str]]
SATURATION = [
    {"kind": "saturation", "numa": 0, "copiers": n, "samples": [rate]}
    for n, rate in enumerate((10, 18), start=1)
]
MEASURES = "#!/bin/sh\n" + "".join(f"echo '{json.dumps(line)}'\n" for line in SATURATION)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Path:
    """Returns a directory with the files that the commands read."""
    where = tmp_path_factory.mktemp("streams")
    (where / "measures").write_text(MEASURES)
    (where / "measures").chmod(0o755)
    stored = {
        "machine": dataclasses.asdict(host.describe()),
        "records": [],
        "seconds": 0,
        "date": "",
        "control": False,
    }
    (where / "stored.json").write_text(json.dumps(stored))
    return where


@pytest.fixture(scope="module")
def usual(folder: Path) -> Usual:
    """Returns a function that runs `mh` with pipes for both outputs, once for the same words."""
    return functools.cache(lambda words: shell(folder, f"mh {words}"))


def shell(folder: Path, line: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of shell, with its redirections, in which `mh` is that of this checkout."""
    command = shlex.join(MH)
    changes = {"XDG_CONFIG_HOME": str(folder / "config"), **changes}
    return subprocess.run(
        ["bash", "-c", line.replace("mh ", f"{command} ", 1)],
        cwd=folder,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("words", PRINTING)
def test_the_commands_print_something(usual: Usual, words: str) -> None:
    result = usual(words)
    assert result.stdout, result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("redirection", "reason"),
    [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")],
)
@pytest.mark.parametrize("words", PRINTING)
def test_output_that_cannot_be_written_is_said_in_a_sentence(
    folder: Path, words: str, redirection: str, reason: str
) -> None:
    result = shell(folder, f"mh {words} {redirection}")
    assert result.returncode == 1, result.stderr
    said = re.findall(r"^manyhands: cannot write the output: (.*)$", result.stderr, re.MULTILINE)
    assert said == [reason], result.stderr
    assert "Traceback" not in result.stderr and "Exception" not in result.stderr


@pytest.mark.parametrize("words", PRINTING)
def test_a_pipe_that_nobody_reads_ends_a_command_without_a_word(
    folder: Path, usual: Usual, words: str
) -> None:
    result = shell(folder, f"mh {words} 2>err | true; echo ${{PIPESTATUS[0]}}; cat err >&2")
    # Either the write to the closed pipe ended the command, or the command had written all its
    # output before the reader `true` ended.
    assert int(result.stdout) in (SIGPIPE_STATUS, usual(words).returncode)
    assert result.stderr in (usual(words).stderr, "")


@pytest.mark.parametrize("words", ["config --json", "doctor --json", "preload"])
def test_a_closed_pipe_is_reported_as_by_sigpipe(folder: Path, words: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [*MH, *words.split()]
        done = subprocess.run(
            command,
            stdout=writing,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
            timeout=60,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (SIGPIPE_STATUS, "")


@pytest.mark.parametrize("words", PRINTING)
def test_the_other_streams_do_not_matter(folder: Path, usual: Usual, words: str) -> None:
    expected = usual(words)
    for redirection in ("2>&-", "2>/dev/full", "<&-", "<&- 2>&-"):
        result = shell(folder, f"mh {words} {redirection}")
        assert result.returncode == expected.returncode
        assert without_measurements(result.stdout) == without_measurements(expected.stdout)


# Matches the row of `mh doctor` whose words depend on a measured time, in the table and in the JSON
# form. Two runs may differ in this row.
TIMED_ROW = re.compile(
    r'│ CMA, time per page.*?\n(?=│ \S)|"name": "CMA, time per page".*?}', re.DOTALL
)


def without_measurements(text: str) -> str:
    return re.sub(r"[\d.]+", "0", TIMED_ROW.sub("", text))


def test_a_timed_row_is_left_out_whole(folder: Path) -> None:
    for words in ("doctor", "doctor --json"):
        text = shell(folder, f"mh {words}").stdout
        assert "on top of the copy" in text
        assert "on top of the copy" not in TIMED_ROW.sub("", text)
        assert "Yama scope" in TIMED_ROW.sub("", text)


@pytest.mark.parametrize("words", ["run ./absent", "run", "demo --mpi none", "config --none"])
def test_an_error_that_nobody_hears_is_still_an_exit_code(folder: Path, words: str) -> None:
    usual = shell(folder, f"mh {words}").returncode
    assert usual > 0
    for redirection in ("2>&-", "2>/dev/full", ">&- 2>&-"):
        result = shell(folder, f"mh {words} {redirection}")
        assert (result.returncode, result.stdout) == (usual, "")


# --- mh run -----------------------------------------------------------------------------------

CLOSED = ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"]


@pytest.mark.parametrize("redirection", [*CLOSED, ">/dev/full", "2>/dev/full", "2>&1 >/dev/full"])
def test_a_program_is_started_with_the_streams_as_they_are(folder: Path, redirection: str) -> None:
    look = "for n in 0 1 2; do readlink /proc/$$/fd/$n || echo closed; done > seen"
    assert shell(folder, f"mh run sh -c '{look}' {redirection}", PMI_RANK="0").returncode == 0
    ours = (folder / "seen").read_text().split()
    assert shell(folder, f"exec sh -c '{look}' {redirection}").returncode == 0
    assert no_pipes(ours) == no_pipes((folder / "seen").read_text().split())


def no_pipes(words: list[str]) -> list[str]:
    return [word.split(":")[0] for word in words]


@pytest.mark.parametrize("redirection", CLOSED)
def test_a_job_runs_with_closed_streams(
    library: Path, compiled, build, tmp_path: Path, redirection: str
) -> None:
    program = compiled(build)
    result = shell(tmp_path, f"mh run -n 2 {program} exit 7 {redirection}")
    assert result.returncode == 7, result.stderr


def test_ctrl_c_before_the_program_starts(folder: Path) -> None:
    slow = folder / "python3"
    slow.write_text("#!/bin/sh\ntouch asked\nexec sleep 10\n")
    slow.chmod(0o755)
    # A shell starts a background job with SIGINT ignored, and children inherit that. With this
    # `env` option, `mh run` starts with the default action instead, as in a terminal.
    command = ["env", "--default-signal=INT", *MH, "run", "./python3"]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 20
    while not (folder / "asked").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in errors


# --- files that cannot be written -------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "bench --from stored.json --json /dev/full",
        "tune --program ./measures --output /dev/full",
        "simulate --cores 48 --iterations 1 --output /dev/null/x",
    ],
)
def test_a_full_disk_is_said_in_a_sentence(folder: Path, words: str) -> None:
    result = shell(folder, f"mh {words}")
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert re.search("^manyhands: cannot write .*$", result.stderr, re.MULTILINE), result.stderr
