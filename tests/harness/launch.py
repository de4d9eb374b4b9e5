# SPDX-License-Identifier: BSD-3-Clause
"""Compiles a C program for an MPI build and runs it, plain or helped, the way `mh run` does.

The launcher passes the environment of helped ranks on (Hydra's -genv, Open MPI's -x), so the
launcher itself is not preloaded. Every run has a time limit and its own session, and is checked for
leftovers. A failed expectation shows the output and the command that repeats the run.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from manyhands_bench.mpis import MpiBuild, Placement

from harness import leftovers
from harness.making import made

ROOT = Path(__file__).resolve().parents[2]
COMPILED = ROOT / "build" / "tests" / "mpi-programs"
LIBRARY = ROOT / "build" / "lib" / "libmanyhands.so"
# Flags for programs of tests. -Wno-stringop-overflow is needed because MPICH's header declares
# status arrays so that MPI_STATUSES_IGNORE looks like an overflow.
FLAGS = "-O1 -g -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-stringop-overflow".split()
TIMED_OUT = -1000
# Open MPI 5's launcher prints this line if it fails before it has started any rank (1 in 700 runs).
# The run is then repeated.
NOT_LAUNCHED = "The PMIx server's listener thread failed to start"


def compiled(
    build: MpiBuild, name: str, sources: list[Path], archives: Sequence[Path] = ()
) -> Path:
    """Compiles the program for `build` if a source or an archive is newer than the program.

    Our archives contain C++. A program with archives may include headers from src/.
    """
    headers = [
        header for folder in {path.parent for path in sources} for header in folder.glob("*.h")
    ]
    ours = [f"-I{ROOT / 'src'}", *map(str, archives), "-lstdc++", "-ldl"] if archives else []

    def command(program: Path) -> list[str]:
        words = [str(build.mpicc), *FLAGS, "-o", str(program), *map(str, sources), *ours]
        return [*words, "-lpthread"]

    program = COMPILED / build.name / name
    return made(program, [*sources, *archives, *headers], command, 120)


@dataclass(frozen=True)
class Run:
    """The result of a run."""

    command: list[str]
    code: int  # TIMED_OUT if the run was ended
    out: str
    err: str
    survivors: dict[int, str]
    segments: set[str]
    summary: dict[str, Any] | None

    def told(self) -> str:
        """Returns the message of a failed expectation: the command that repeats the run, and its
        output."""
        parts = [f"exit code {self.code}" if self.code != TIMED_OUT else "timed out"]
        parts += [f"repeat with: {shlex.join(self.command)}"]
        parts += [f"--- stdout\n{self.out[-3000:]}", f"--- stderr\n{self.err[-6000:]}"]
        return "\n".join(parts)

    def skipped(self) -> str | None:
        """Returns the reason why the program found nothing to test here."""
        for line in self.out.splitlines():
            if line.startswith("SKIP "):
                return line[5:]
        return None

    def expect_clean(self) -> None:
        """Checks that the run left no process and no segment."""
        assert not self.survivors, f"processes left: {self.survivors}\n{self.told()}"
        assert not self.segments, f"left in /dev/shm: {self.segments}\n{self.told()}"

    def expect(self, *lines: str) -> None:
        """Checks that the run succeeded and printed these lines."""
        assert self.code == 0, self.told()
        for line in lines:
            assert line in self.out.splitlines(), f"no line '{line}'\n{self.told()}"
        self.expect_clean()


@dataclass(frozen=True)
class Arm:
    """A way to run programs: plain (library None), or with the library preloaded."""

    name: str
    library: Path | None = None
    before: tuple[Path, ...] = ()  # other libraries to preload first
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def helped(self) -> bool:
        return self.library is not None


def heap_of(library: Path) -> Path:
    """Returns the path of the heap's library beside `library`."""
    return library.with_name("libmanyhands-heap.so")


def with_heap(arm: Arm) -> Arm:
    """Returns the same arm with all large allocations in memory that the ranks of a node share."""
    arm = without_heap(arm)
    before = (*arm.before, heap_of(arm.library))
    return replace(arm, before=before, settings={**arm.settings, "MH_HEAP": "on"})


def without_heap(arm: Arm) -> Arm:
    """Returns the same arm with private allocations, as `mh run` starts it with MH_HEAP=off."""
    assert arm.library is not None
    others = tuple(path for path in arm.before if path != heap_of(arm.library))
    return replace(arm, before=others)


# MPI builds whose launchers start quickly. Settings of Manyhands have the same effect under every
# MPI, so tests of settings run under these builds only.
QUICK = ("mpich4", "openmpi4")


def _environment(build: MpiBuild, env: dict[str, str], mark: str) -> dict[str, str]:
    """Returns the environment of the launcher, without variables that are set for the ranks."""
    ours = {"LD_PRELOAD", *env}
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MH_") and k not in ours}
    return {**kept, **build.environment(), leftovers.MARK: mark}


def _ranks_environment(build: MpiBuild, values: dict[str, str]) -> list[str]:
    if build.family == "hydra":
        return [word for key, value in values.items() for word in ("-genv", key, value)]
    return [word for key, value in values.items() for word in ("-x", f"{key}={value}")]


def command_for(
    build: MpiBuild, arm: Arm, ranks: int, program: list[str], env: dict[str, str]
) -> list[str]:
    values = {**arm.settings, **env} if arm.helped else {}
    values |= {k: v for k, v in env.items() if not k.startswith("MH_")}
    if arm.library is not None:
        values["LD_PRELOAD"] = ":".join(map(str, [*arm.before, arm.library]))
    launch = build.launch(ranks, Placement.FREE)
    return [*launch[:1], *_ranks_environment(build, values), *launch[1:], *program]


def start(
    build: MpiBuild, arm: Arm, ranks: int, program: list[str], env: dict[str, str], mark: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command_for(build, arm, ranks, program, env),
        env=_environment(build, env, mark),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _finish(process: subprocess.Popen[str], mark: str, timeout_s: float) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=timeout_s)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
    try:
        out, err = process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        leftovers.end_processes(mark)
        out, err = process.communicate()
    return TIMED_OUT, out, err


def run(
    build: MpiBuild,
    arm: Arm,
    ranks: int,
    program: list[str],
    env: dict[str, str] | None = None,
    timeout_s: float = 60,
    meddle: Any = None,
) -> Run:
    """Runs the program to its end. Calls `meddle(process, mark)` after the start."""
    done = _run(build, arm, ranks, program, env, timeout_s, meddle)
    if NOT_LAUNCHED in done.err:
        done = _run(build, arm, ranks, program, env, timeout_s, meddle)
    return done


def _run(
    build: MpiBuild,
    arm: Arm,
    ranks: int,
    program: list[str],
    env: dict[str, str] | None,
    timeout_s: float,
    meddle: Any,
) -> Run:
    mark = uuid.uuid4().hex
    values = dict(env or {})
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "summary.json"
        if arm.helped:
            values.setdefault("MH_SUMMARY_JSON", str(report))
        before = leftovers.segments()
        process = start(build, arm, ranks, program, values, mark)
        try:
            if meddle is not None:
                meddle(process, mark)
        except BaseException:
            leftovers.end_processes(mark)
            raise
        code, out, err = _finish(process, mark, timeout_s)
        survivors = leftovers.surviving(mark)
        leftovers.end_processes(mark)
        left = leftovers.left_segments(before)
        try:
            summary = json.loads(report.read_text())
        except (OSError, json.JSONDecodeError):
            summary = None
    command = command_for(build, arm, ranks, program, dict(env or {}))
    return Run(command, code, out, err, survivors, left, summary)


def longer_and_longer(
    mpi: MpiBuild, arm: Arm, ranks: int, source: Path, env: dict[str, str]
) -> Iterator[tuple[Run, int]]:
    """Calls longer_runs() for a C program."""
    return longer_runs(mpi, arm, ranks, str(compiled(mpi, source.stem, [source])), env)


def longer_runs(
    mpi: MpiBuild, arm: Arm, ranks: int, program: str, env: dict[str, str]
) -> Iterator[tuple[Run, int]]:
    """Runs a program with more and more rounds ($ROUNDS), until the caller has seen its event.

    The ranks that help in a round vary, and third ranks help if each rank has a core.
    """
    for rounds in (10, 40, 160, 640, 2560):
        settings = {"MH_CORES": str(ranks), **env, "ROUNDS": str(rounds)}
        done = run(mpi, arm, ranks, [program], settings, timeout_s=100)
        done.expect("PASS")
        assert done.summary is not None
        yield done, rounds
