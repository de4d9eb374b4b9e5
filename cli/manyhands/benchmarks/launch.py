# SPDX-License-Identifier: BSD-3-Clause
"""Compiling the benchmark programs for an MPI build, and running one launch of one arm.

Programs are compiled with the build's own mpicc into build/bench/NAME/ of the checkout, when their
source is newer. A launch that fails, hangs or prints no result is a `LaunchError` that says which
command it was and what it said; it never becomes a number.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyhands.benchmarks.cases import Arm, Case
from manyhands.benchmarks.host import Machine
from manyhands.benchmarks.mpis import MpiBuild, Placement
from manyhands.benchmarks.stats import Line
from manyhands.machine import expand

PROGRAMS = ("pingpong", "latency", "collectives", "waiters", "streams", "loops")
TIMEOUT_S = 180
_MORE_FLAGS = {"loops": ("-fopenmp",)}
# GCC takes MPI_STATUSES_IGNORE of MPICH's headers for a buffer of length 0.
_FLAGS = ("-std=gnu11", "-O3", "-Wall", "-Wextra", "-Wno-stringop-overflow")


class LaunchError(Exception):
    """A program could not be compiled or run."""


@dataclass(frozen=True)
class Launch:
    lines: list[Line]
    config: Line
    summary: dict[str, Any] | None  # what the library says it did; None when plain


def compile_programs(build: MpiBuild, checkout: Path, programs: set[str]) -> dict[str, Path]:
    """The binaries of these programs for this build, compiled where needed."""
    sources = checkout / "bench" / "mpi"
    target = checkout / "build" / "bench" / build.name
    target.mkdir(parents=True, exist_ok=True)
    shared = [sources / "measure.c", sources / "measure.h"]
    binaries = {}
    for program in sorted(programs):
        source, binary = sources / f"{program}.c", target / program
        if not binary.exists() or _newest([source, *shared]) > binary.stat().st_mtime:
            inputs = [str(source), str(shared[0]), "-lm", *_MORE_FLAGS.get(program, ())]
            command = [str(build.mpicc), *_FLAGS, *inputs, "-o", str(binary)]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode != 0:
                raise LaunchError(f"{shlex.join(command)} failed:\n{done.stderr.strip()}")
        binaries[program] = binary
    return binaries


def _newest(paths: list[Path]) -> float:
    return max(path.stat().st_mtime for path in paths)


def run(
    build: MpiBuild, binary: Path, case: Case, arm: Arm, machine: Machine, library: Path | None
) -> Launch:
    """One launch. `library` is preloaded in helped arms; None makes every arm plain."""
    with tempfile.TemporaryDirectory(prefix="mh-bench-") as scratch:
        summary_file = Path(scratch) / "summary.json"
        settings = dict(case.environment)
        if arm.helped and library is not None:
            settings |= {
                "LD_PRELOAD": str(library),
                "MH_SUMMARY_JSON": str(summary_file),
                **arm.environment,
            }
        ranks = case.ranks(machine)
        placement = Placement.FREE if ranks > machine.cores else case.placement
        command = [
            *build.launch(ranks, placement),
            *_with_environment(settings),
            str(binary),
            *case.arguments(machine),
            *arm.arguments,
        ]
        output = _output(command, _clean_environment() | build.environment())
        lines = [json.loads(text) for text in output.splitlines() if text.startswith("{")]
        if not lines or lines[0].get("kind") != "config":
            raise LaunchError(f"{shlex.join(command)} printed no results")
        return Launch(lines[1:], lines[0], _summary(summary_file))


def _with_environment(settings: dict[str, str]) -> list[str]:
    """`env A=B ...` before the program: every launcher passes it on, and only ranks see it."""
    return ["env", *(f"{key}={value}" for key, value in settings.items())] if settings else []


def _clean_environment() -> dict[str, str]:
    """Ours without anything that would help or configure the plain arm."""
    return {k: v for k, v in os.environ.items() if not k.startswith("MH_") and k != "LD_PRELOAD"}


def _output(command: list[str], environment: dict[str, str]) -> str:
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        _end(process)
        raise LaunchError(f"{shlex.join(command)} did not end within {TIMEOUT_S} s") from None
    except BaseException:  # Ctrl-C: leave no ranks behind
        _end(process)
        raise
    if process.returncode != 0:
        raise LaunchError(
            f"{shlex.join(command)} ended with {process.returncode}:\n{_tail(errors or output)}"
        )
    if "cannot be preloaded" in errors:
        raise LaunchError(f"the library could not be preloaded:\n{_tail(errors)}")
    return output


def _end(process: subprocess.Popen[str]) -> None:
    """The launcher gets time to end its ranks; then the whole session goes."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.communicate(timeout=5)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def _tail(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def _summary(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError):
        return None


def unpinned(config: Line) -> bool:
    """Whether two ranks of a host may run on one CPU."""
    taken: set[tuple[str, int]] = set()
    for host, cpus in zip(config["hosts"], config["cpus"], strict=True):
        mine = {(host, cpu) for cpu in expand(cpus)}
        if taken & mine:
            return True
        taken |= mine
    return False
