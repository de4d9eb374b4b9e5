# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh run`: messages, exit codes and signals, and a real program under each launcher."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from manyhands import installation
from manyhands.launcher import kind_of

from .conftest import MH, WHEELS, Build, Mh, environment, without_right_to_read

Compiled = Callable[[Build], Path]
RANK = re.compile(r"^rank (\d) of (\d) pid (\d+) preload=(\S*) summary=(\S*)$", re.MULTILINE)


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


# --- errors and help texts --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["-n", "2"], 2, r"no program given: mh run -n 4 \./app"),
        (["-n", "2", "./absent"], 127, r"cannot find the program \./absent: check the path"),
        (["-n", "2", "no-such-thing"], 127, r"cannot find .*: give its path, like \./app"),
        (["-n", "2", "data.txt"], 127, r"not on the PATH; did you mean \./data\.txt\?"),
        (["-n", "2", "./data.txt"], 126, r"cannot execute \./data\.txt: .*\(chmod \+x\)"),
        (["-n", "2", "./tool.py"], 126, r"for a Python script: mh run \.\.\. python \./tool\.py"),
        (["-n", "2", "."], 127, r"cannot find"),
        (["-n", "2", "./"], 126, r"it is a directory"),
        (["--mpiexec", "/no/mpiexec", "-n", "2", "true"], 127, r"--mpiexec: cannot find /no/mpi"),
        (["--mpiexec", "./data.txt", "-n", "2", "true"], 126, r"--mpiexec: cannot execute"),
    ],
)
def test_errors_say_what_to_do(
    mh: Mh, library: Path, tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    (tmp_path / "data.txt").write_text("x")
    (tmp_path / "tool.py").write_text("x")
    result = mh("run", *words)
    assert result.returncode == code
    assert re.search(f"^manyhands: .*{message}", result.stderr, re.MULTILINE), result.stderr
    assert "Traceback" not in result.stderr


def test_unknown_command_is_a_usage_error(mh: Mh) -> None:
    assert mh("runn").returncode == 2


@pytest.mark.parametrize("command", ["run", "preload", "config", "doctor"])
def test_every_command_has_an_example(mh: Mh, command: str) -> None:
    result = mh(command, "--help")
    assert result.returncode == 0
    assert re.search(r"Example: .*mh ", result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_help_and_version(mh: Mh) -> None:
    assert re.search(r"^ *mh \d+\.\d+\.\d+$", mh("--version").stdout, re.MULTILINE)
    assert all(word in mh("--help").stdout for word in ("run", "doctor", "config", "preload"))


# --- programs that cannot be helped -----------------------------------------------------------


def test_static_program_is_said_to_run_without_help(mh: Mh, library: Path, tmp_path: Path) -> None:
    command = ["cc", "-static", "-x", "c", "-", "-o", str(tmp_path / "app")]
    subprocess.run(command, input="int main(void) { return 0; }", text=True, check=True)
    result = mh("run", "--dry-run", "-n", "1", "./app")
    assert re.search(r"app runs without help: it is statically linked", result.stderr)


def test_set_user_id_program_is_said_to_run_without_help(
    mh: Mh, library: Path, tmp_path: Path
) -> None:
    shutil.copy("/bin/true", tmp_path / "app")
    (tmp_path / "app").chmod(0o4755)
    result = mh("run", "--dry-run", "-n", "1", "./app")
    assert re.search(r"app runs without help: it is a set-user-ID", result.stderr)


def test_thirty_two_bit_program_is_said_to_run_without_help(
    mh: Mh, library: Path, tmp_path: Path
) -> None:
    # Writes the first 52 bytes of a 32-bit little-endian ELF file without program headers.
    head = b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x02\x00\x03\x00" + bytes(32)
    (tmp_path / "app").write_bytes(head)
    (tmp_path / "app").chmod(0o755)
    result = mh("run", "--dry-run", "-n", "1", "./app")
    assert re.search(r"app runs without help: it is a 32-bit program", result.stderr)


def test_program_without_mpi_is_said_to_have_none(mh: Mh, library: Path) -> None:
    result = mh("run", "--dry-run", "-n", "1", "sleep", "1")
    assert re.search(
        r"sleep is not linked to an MPI library; Manyhands helps only if", result.stderr
    )


def test_a_program_that_may_not_be_read_is_started(
    mh: Mh, hydra: Path, library: Path, tmp_path: Path
) -> None:
    app = Path(shutil.copy("/bin/true", tmp_path / "app"))
    for command in (["run", "--dry-run"], ["profile"]):
        words = [*without_right_to_read(app), *MH, *command, "--mpiexec", hydra, "-n", "1", app]
        result = subprocess.run(
            words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
        )
        assert "Permission denied" not in result.stderr
        assert result.returncode == (command == ["profile"]), result.stderr


def test_a_program_that_is_cut_in_its_header_is_left_to_the_launcher(
    mh: Mh, hydra: Path, library: Path, tmp_path: Path
) -> None:
    whole = Path("/bin/true").read_bytes()
    for length in (17, 40, 56):
        (tmp_path / "app").write_bytes(whole[:length])
        (tmp_path / "app").chmod(0o755)
        result = mh("run", "--dry-run", "--mpiexec", hydra, "-n", "1", "./app")
        assert result.returncode == 0, result.stderr


# --- the environment that `mh run` composes ---------------------------------------------------


def dry_run(mh: Mh, launcher: Path, *words: str, **changes: str) -> str:
    result = mh("run", "--dry-run", "--mpiexec", launcher, *words, "sh", **changes)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def hydra(tmp_path: Path) -> Path:
    return script(tmp_path / "mpiexec.hydra", "#!/bin/sh\nexit 0\n")


def ours(library: Path) -> str:
    """Returns the libraries that are preloaded by default, as in LD_PRELOAD."""
    return f"{library.with_name('libmanyhands-heap.so')}:{library}"


def test_a_preload_that_was_there_stays_in_front(mh: Mh, hydra: Path, library: Path) -> None:
    line = dry_run(mh, hydra, "-n", "1", LD_PRELOAD="libSegFault-that-is-not-there.so")
    assert f"-genv LD_PRELOAD libSegFault-that-is-not-there.so:{ours(library)} " in line


def test_a_preload_given_to_the_launcher_stays_in_front(mh: Mh, hydra: Path, library: Path) -> None:
    line = dry_run(mh, hydra, "-genv", "LD_PRELOAD", "/t.so", "-n", "1")
    assert f"-genv LD_PRELOAD /t.so:{ours(library)} " in line
    assert line.count("LD_PRELOAD") == 1


def test_the_heap_is_preloaded_by_default(mh: Mh, hydra: Path, library: Path) -> None:
    assert f"-genv LD_PRELOAD {ours(library)} " in dry_run(mh, hydra, "-n", "1")


@pytest.mark.parametrize("mode", ["off", "auto", "on"])
def test_the_heap_is_preloaded_unless_it_is_off(
    mh: Mh, hydra: Path, library: Path, mode: str
) -> None:
    wanted = str(library) if mode == "off" else ours(library)
    line = dry_run(mh, hydra, "-n", "1", MH_HEAP=mode, LD_PRELOAD="/t.so")
    assert f"-genv LD_PRELOAD /t.so:{wanted} " in line
    assert f"-genv MH_HEAP {mode}" in line
    assert mh("preload", MH_HEAP=mode).stdout == f"{wanted}\n"
    assert mh("config", MH_HEAP=mode).stderr == ""


def test_a_heap_that_cannot_be_is_said_once(
    mh: Mh, library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = mh("preload", MH_HEAP="yes")
    assert wrong.stdout == f"{library}\n", "an unknown word is off"
    assert wrong.stderr.count("MH_HEAP=yes is not accepted, so the heap is off; MH_HEAP takes") == 1
    alone = tmp_path / library.name
    assert [installation.preloaded(alone, "on") for _ in range(2)] == [[alone], [alone]]
    assert installation.preloaded(alone, "") == [alone]
    told = capsys.readouterr().err
    assert told.count(f"is ignored: there is no libmanyhands-heap.so beside {alone}") == 1


def test_summary_is_on_unless_set(mh: Mh, hydra: Path, library: Path) -> None:
    assert "-genv MH_SUMMARY 1" in dry_run(mh, hydra, "-n", "1")
    assert "-genv MH_SUMMARY 0" in dry_run(mh, hydra, "-n", "1", MH_SUMMARY="0")


def test_settings_travel_with_the_launcher(mh: Mh, hydra: Path, library: Path) -> None:
    assert "-genv MH_THRESHOLD 1M" in dry_run(mh, hydra, "-n", "1", MH_THRESHOLD="1M")


def test_openmp_threads_are_set_before_the_program_starts(
    mh: Mh, hydra: Path, library: Path
) -> None:
    line = dry_run(mh, hydra, "--openmp-threads", "24", "-n", "1", OMP_NUM_THREADS="1")
    assert "-genv MH_OPENMP static" in line
    assert "-genv OMP_NUM_THREADS 24" in line
    assert "OMP_NUM_THREADS" not in dry_run(mh, hydra, "-n", "1")


def test_openmp_threads_are_sixteen_for_each_core(mh: Mh, hydra: Path, library: Path) -> None:
    line = dry_run(mh, hydra, "--openmp-threads", "auto", "-n", "1")
    assert f"-genv OMP_NUM_THREADS {min(16 * len(os.sched_getaffinity(0)), 256)} " in line
    rank = mh("run", "--openmp-threads=auto", "sh", "-c", "echo $OMP_NUM_THREADS", PMI_RANK="0")
    assert rank.stdout == f"{min(16 * os.cpu_count(), 256)}\n"


@pytest.mark.parametrize("word", ["", "0", "-2", "many"])
def test_openmp_threads_are_a_number(mh: Mh, hydra: Path, library: Path, word: str) -> None:
    result = mh("run", "--dry-run", "--openmp-threads", word, "-n", "1", "sh")
    assert result.returncode == 2
    assert "--openmp-threads takes a number or auto" in result.stderr


def test_inside_a_rank_only_the_program_is_started(mh: Mh, library: Path) -> None:
    result = mh("run", "sh", "-c", "echo $LD_PRELOAD $MH_SUMMARY; exit 5", PMI_RANK="0")
    assert result.stdout.split() == [ours(library), "1"]
    assert result.returncode == 5


def test_a_program_does_not_wait_for_what_other_commands_import(library: Path) -> None:
    line = [*MH[:1], "-X", "importtime", *MH[1:], "run", "true"]
    result = subprocess.run(
        line, capture_output=True, text=True, env=environment(PMI_RANK="0"), timeout=60
    )
    assert result.returncode == 0
    assert "manyhands.starting" in result.stderr
    assert "typer" not in result.stderr
    assert "rich" not in result.stderr


def test_ignored_signals_are_not_inherited(mh: Mh, library: Path) -> None:
    result = mh("run", "sh", "-c", "grep SigIgn /proc/$$/status", PMI_RANK="0")
    ignored = int(result.stdout.split()[1], 16)
    assert not ignored & 1 << (signal.SIGPIPE - 1)


# --- programs that are really started ---------------------------------------------------------


def test_a_real_program_under_its_own_launcher(
    mh: Mh, library: Path, compiled: Compiled, build: Build
) -> None:
    program = compiled(build)
    chosen = mh("run", "--dry-run", "-n", "2", program).stdout.split()[0]
    found, wanted = (Path(str(shutil.which(word))).resolve() for word in (chosen, build.launcher))
    assert found.parent == wanted.parent
    assert kind_of(found) is kind_of(wanted)
    result = mh("run", "-n", "2", program)
    assert result.returncode == 0, result.stderr
    lines = RANK.findall(result.stdout)
    assert sorted(line[:2] for line in lines) == [("0", "2"), ("1", "2")]
    assert {line[3:] for line in lines} == {(ours(library), "1")}


def test_exit_code_is_the_program_s(
    mh: Mh, library: Path, compiled: Compiled, build: Build
) -> None:
    assert mh("run", "-n", "2", compiled(build), "exit", "7").returncode == 7


def plain(build: Build, program: Path, *words: str) -> int:
    command = [build.launcher, "-n", "2", str(program), *words]
    return subprocess.run(command, env=environment(), capture_output=True, timeout=60).returncode


def test_a_rank_that_dies_of_a_signal_ends_the_job_as_without_us(
    mh: Mh, library: Path, compiled: Compiled, build: Build
) -> None:
    program = compiled(build)
    result = mh("run", "-n", "2", program, "signal", str(int(signal.SIGTERM)))
    assert result.returncode == plain(build, program, "signal", str(int(signal.SIGTERM)))
    assert result.returncode != 0


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def wait_until_gone(pids: list[int], seconds: float) -> list[int]:
    deadline = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [pid for pid in pids if alive(pid)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_ends_launcher_and_ranks(
    library: Path, compiled: Compiled, build: Build, number: signal.Signals
) -> None:
    command = [*MH, "run", "-n", "2", str(compiled(build)), "sleep", "50"]
    process = subprocess.Popen(
        command,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        pids: list[int] = []
        while len(pids) < 2:
            line = process.stdout.readline()
            assert line, "the job ended before both ranks had spoken"
            pids += [int(match[2]) for match in RANK.findall(line)]
        assert all(map(alive, pids))
        process.send_signal(number)
        process.stdout.read()
        process.wait(timeout=30)  # any code: Hydra 4.0.2 may report a signal with 0
        assert wait_until_gone(pids, 10) == []
    finally:
        process.kill()


def test_a_launcher_that_does_not_match_is_warned_about_in_one_line(
    mh: Mh, library: Path, compiled: Compiled, tmp_path: Path
) -> None:
    mpich = compiled(Build("mpich5", f"{WHEELS}/mpich5/bin/mpicc", ""))
    other = script(tmp_path / "mpiexec", "#!/bin/sh\necho 'mpiexec (Open MPI) 5.0.11'\n")
    result = mh("run", "--dry-run", "--mpiexec", other, "-n", "2", mpich)
    assert re.fullmatch(
        r"manyhands: \S+ loads MPICH \(\S+libmpi\.so\.12\), but \S+ is the launcher of Open MPI, .*"
        r"use --mpiexec \S+mpiexec\S*\n",
        result.stderr,
    ), result.stderr
    assert result.returncode == 0


@pytest.mark.parametrize("wheel", ["mpich5", "openmpi5"])
def test_python_with_mpi4py_finds_its_own_launcher(
    mh: Mh, library: Path, tmp_path: Path, wheel: str
) -> None:
    python = WHEELS / wheel / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{wheel} is not installed")
    (tmp_path / "x.py").write_text(
        "import sys\n"
        "from mpi4py import MPI\n"
        "c = MPI.COMM_WORLD\n"
        # A single write: print() makes several if output is unbuffered, and the ranks' lines mix.
        "sys.stdout.write(f'sum {c.allreduce(c.rank + 1)} of {c.size}\\n')\n"
    )
    result = mh("run", "-n", "2", python, "x.py")
    assert result.returncode == 0, result.stderr
    assert sorted(re.findall(r"sum \d of \d", result.stdout)) == ["sum 3 of 2"] * 2
    chosen = mh("run", "--dry-run", "-n", "2", python, "x.py").stdout.split()[0]
    assert chosen.startswith(str(WHEELS.resolve() / wheel / "bin" / "mpiexec"))


def test_a_wrapper_is_looked_through(mh: Mh, library: Path, compiled: Compiled) -> None:
    program = compiled(Build("openmpi5", f"{WHEELS}/openmpi5/bin/mpicc", ""))
    result = mh("run", "--dry-run", "-n", "2", "env", "A=b", "nice", program)
    assert result.stdout.startswith(f"{WHEELS.resolve()}/openmpi5/bin/mpiexec ")
    assert result.stderr == ""
