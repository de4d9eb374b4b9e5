# SPDX-License-Identifier: BSD-3-Clause
"""Compiles the stencil and runs it once, with a report of its steps.

A run that fails, hangs or leaves no result raises `RunError` with the command and its output; it
never becomes a number.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyhands_bench.mpis import MpiBuild, Placement
from manyhands_unix.endings import end_session

from manyhands import installation

TIMEOUT_S = 180
STEP = re.compile(r"stencil: step (\d+)/\d+")
Steps = Callable[[int], None]  # called with the number of steps done


class RunError(Exception):
    """The stencil could not be compiled or run."""


@dataclass(frozen=True)
class Result:
    times: dict[str, Any]  # what the stencil writes with --json
    checksum: str
    summary: dict[str, Any] | None  # the library's own report; None for a plain run
    said: list[str]  # other lines on standard error


@dataclass(frozen=True)
class Setup:
    """The parts that are the same in all runs of the demo."""

    build: MpiBuild
    placement: Placement
    program: Path
    ranks: int
    scratch: Path


def compile_stencil(build: MpiBuild, source: Path, target: Path) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    program = target / "stencil"
    program.unlink(missing_ok=True)  # an existing program may have been compiled by another mpicc
    command = ["make", "-s", "-C", str(source), f"MPICC={build.mpicc}", f"PROGRAM={program}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment(build))
    except FileNotFoundError:
        raise RunError("make is not installed; it is needed to compile the stencil") from None
    if done.returncode != 0:
        raise RunError(f"{shlex.join(command)} failed:\n{tail(done.stderr.splitlines())}")
    return program


def run(
    setup: Setup,
    arguments: list[str],
    library: Path | None,
    on_step: Steps = lambda _: None,
    heap: bool = False,
) -> Result:
    """Runs the stencil once: helped if `library` is given, and with a shared heap if `heap` is
    true.
    """
    files = {name: setup.scratch / f"{name}.out" for name in ("json", "checksum", "summary")}
    for file in files.values():
        file.unlink(missing_ok=True)
    helped = []
    if library is not None:
        preloaded = installation.preloaded(library, "on" if heap else None)
        helped = ["env", f"LD_PRELOAD={':'.join(map(str, preloaded))}"]
        helped += ["MH_HEAP=on"] if heap else []
        helped += [f"MH_SUMMARY_JSON={files['summary']}"]
    command = [
        *setup.build.launch(setup.ranks, setup.placement),
        *helped,
        str(setup.program),
        *arguments,
        *("--progress", "always"),
        *("--json", str(files["json"]), "--checksum", str(files["checksum"])),
    ]
    said = _run_to_end(command, environment(setup.build), on_step)
    try:
        times = json.loads(files["json"].read_text())
        checksum = files["checksum"].read_text()
    except (OSError, json.JSONDecodeError):
        raise RunError(f"{shlex.join(command)} left no result:\n{tail(said)}") from None
    return Result(times, checksum, _summary(files["summary"]), said)


def environment(build: MpiBuild) -> dict[str, str]:
    """The environment of this process without LD_PRELOAD, so that the plain arm is plain. MH_*
    settings stay.
    """
    kept = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    return kept | build.environment()


def _run_to_end(command: list[str], env: dict[str, str], on_step: Steps) -> list[str]:
    """Runs the command and returns its lines on standard error, without those that report a
    step.
    """
    late = threading.Event()
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=env,
        start_new_session=True,
    ) as process:
        watchdog = threading.Timer(TIMEOUT_S, lambda: (late.set(), end_session(process)))
        watchdog.start()
        try:
            said = _listen(process, on_step)
            code = process.wait()
        except BaseException:  # Ctrl-C: leave no ranks behind
            end_session(process)
            raise
        finally:
            watchdog.cancel()
    if late.is_set():
        raise RunError(f"{shlex.join(command)} did not end within {TIMEOUT_S} s")
    if code != 0:
        raise RunError(f"{shlex.join(command)} ended with {code}:\n{tail(said)}")
    return said


def _listen(process: subprocess.Popen[str], on_step: Steps) -> list[str]:
    said: deque[str] = deque(maxlen=200)
    assert process.stderr is not None
    for line in process.stderr:
        step = STEP.search(line)
        if step:
            on_step(int(step.group(1)))
        elif line.strip():
            said.append(line.rstrip())
    return list(said)


def tail(lines: list[str], count: int = 8) -> str:
    return "\n".join(lines[-count:])


def _summary(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError):
        return None
