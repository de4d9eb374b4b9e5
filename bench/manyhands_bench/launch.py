# SPDX-License-Identifier: BSD-3-Clause
"""Runs a launch of a single arm, or launches of all arms at the same time.

A launch that fails, hangs or prints no result raises `LaunchError` with its command and its output,
and gives no number. If the arm measures the help of third ranks, a launch without such help raises
`LaunchError`, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyhands import installation
from manyhands.machine import expand
from manyhands_unix.endings import end_session

from manyhands_bench import examples
from manyhands_bench.case import OPENMP, Arm, Case, Variant
from manyhands_bench.host import Machine
from manyhands_bench.mpis import MpiBuild, Placement
from manyhands_bench.nodes import Nodes, NodesError, several_nodes
from manyhands_bench.programs import LaunchError
from manyhands_bench.stats import Line
from manyhands_bench.turns import Place, ring

TIMEOUT_S = 180
# A program beside the MPI job, for cases that measure a disturbed job. It occupies the last core of
# this process's affinity mask for 20 ms of every 50 ms.
_THIRD_PROGRAM = """
import os, time
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
while os.getppid() == PARENT:
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        pass
    time.sleep(0.03)
"""


@dataclass(frozen=True)
class Launch:
    lines: list[Line]
    config: Line
    summary: dict[str, Any] | None  # the library's own report; None for a plain launch


def run(
    build: MpiBuild,
    binary: Path,
    case: Case,
    arm: Arm,
    machine: Machine,
    library: Path | None,
    variant: Variant = Variant(),
    place: Place | None = None,
) -> Launch:
    """Run a launch. `library` is preloaded in helped arms; None makes every arm plain.

    With a `place`, the launch takes turns with the other launches of the place's ring.
    """
    with tempfile.TemporaryDirectory(prefix="mh-bench-") as scratch:
        summary_file = Path(scratch) / "summary.json"
        settings = case.environment | variant.environment | _threads(variant)
        settings |= place.environment if place else {}
        if arm.helped and library is not None and not case.simulated:
            wanted = arm.environment.get("MH_HEAP", "")
            settings |= {
                "LD_PRELOAD": ":".join(map(str, installation.preloaded(library, wanted))),
                "MH_SUMMARY_JSON": str(summary_file),
                **_settings_of(arm, variant),
            }
        program = [
            *_with_environment(settings),
            str(binary),
            *case.arguments(machine),
            *variant.arguments,
            *arm.arguments,
        ]
        with contextlib.ExitStack() as beside:
            if case.disturbed:
                beside.enter_context(_third_program())
            made = _nodes_for(case, Path(scratch), beside)
            command = [*_launcher(build, case, variant, machine, made), *program]
            # Each launch that takes turns with others has its own folder for temporary files,
            # because launchers of Open MPI 4 that run at the same time fail in a common folder.
            own = {"TMPDIR": scratch} if place else {}
            output = _output(command, clean_environment() | build.environment() | own, place)
        lines = _lines(output)
        if not lines or lines[0].get("kind") != "config":
            raise LaunchError(f"{shlex.join(command)} printed no results")
        summary = _summary(summary_file)
        if arm.helped and library is not None:
            check_moved(case.expects(arm, variant, machine), summary)
            check_loops(arm, summary)
        return Launch(lines[1:], lines[0], summary)


def check_moved(count: str, summary: dict[str, Any] | None) -> None:
    """Raises LaunchError if `count` names a count of third ranks' help that the summary lacks or
    has at 0.
    """
    if count and (summary is None or summary["total"][count] == 0):
        told = "it wrote no summary" if summary is None else f"{count} is 0 in its summary"
        raise LaunchError(f"the arm measures the help of third ranks, but had none: {told}")


def check_loops(arm: Arm, summary: dict[str, Any] | None) -> None:
    """Raises LaunchError if the arm measures shared loops and no helper did a part of a loop."""
    if arm.loops and (summary is None or summary["total"]["loops"]["units_by_others"] == 0):
        raise LaunchError("the arm measures shared loops, but no helper ran a part of one")


def run_all(
    build: MpiBuild,
    binary: Path,
    case: Case,
    arms: Sequence[Arm],
    machine: Machine,
    library: Path | None,
    variant: Variant = Variant(),
) -> dict[str, Launch]:
    """Launch all arms at the same time; their ranks take turns, batch by batch. A failed launch
    ends the other launches.
    """
    if len(arms) == 1:
        return {arms[0].name: run(build, binary, case, arms[0], machine, library, variant)}
    with (
        ring(len(arms), case.ranks_of(variant, machine)) as here,
        ThreadPoolExecutor(len(arms)) as pool,
    ):
        launches = {
            pool.submit(
                run, build, binary, case, arm, machine, library, variant, Place(here, i)
            ): arm
            for i, arm in enumerate(arms)
        }
        try:
            for done in as_completed(launches):
                done.result()
        except BaseException:
            here.end()
            raise
        return {arm.name: done.result() for done, arm in launches.items()}


def _nodes_for(case: Case, scratch: Path, beside: contextlib.ExitStack) -> Nodes | None:
    """The nodes of a case for the duration of `beside`, or None for the machine itself."""
    if case.hosts == 1:
        return None
    try:
        return beside.enter_context(several_nodes(scratch, case.hosts))
    except NodesError as error:
        raise LaunchError(str(error)) from None


def _launcher(
    build: MpiBuild, case: Case, variant: Variant, machine: Machine, made: Nodes | None
) -> list[str]:
    ranks = case.ranks_of(variant, machine)
    if made is not None:
        return build.launch_across(made, ranks)
    crowded = ranks * variant.threads > machine.cores
    return build.launch(ranks, Placement.FREE if crowded else case.placement, variant.threads)


def _threads(variant: Variant) -> dict[str, str]:
    """The setting of OpenMP's thread count: by default, a rank would have threads on the cores of
    other ranks.
    """
    return {"OMP_NUM_THREADS": str(variant.threads)} if variant.way.compiler else {}


def _settings_of(arm: Arm, variant: Variant) -> dict[str, str]:
    """The settings of an arm. Marked loops are shared without any setting."""
    marked = variant.way.of(arm).marked
    return {k: v for k, v in arm.environment.items() if not (marked and k == OPENMP)}


def _lines(output: str) -> list[Line]:
    if examples.is_one(output):
        return examples.lines(output)
    return [json.loads(text) for text in output.splitlines() if text.startswith("{")]


@contextlib.contextmanager
def _third_program() -> Iterator[None]:
    text = f"PARENT = {os.getpid()}\n{_THIRD_PROGRAM}"
    process = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _with_environment(settings: dict[str, str]) -> list[str]:
    """The command `env A=B ...` that precedes the program. Thus only ranks see the variables, and
    no launcher needs an option for them.
    """
    return ["env", *(f"{key}={value}" for key, value in settings.items())] if settings else []


def clean_environment() -> dict[str, str]:
    """The environment of this process, without variables that would help or configure the plain
    arm.
    """
    return {k: v for k, v in os.environ.items() if not k.startswith("MH_") and k != "LD_PRELOAD"}


def _output(command: list[str], environment: dict[str, str], place: Place | None) -> str:
    timeout_s = TIMEOUT_S * (place.ring.count if place else 1)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        if place:
            place.ring.join(process)
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            end_session(process)
            raise LaunchError(f"{shlex.join(command)} did not end within {timeout_s} s") from None
        except BaseException:  # Ctrl-C: leave no ranks behind
            end_session(process)
            raise
    if process.returncode != 0:
        raise LaunchError(
            f"{shlex.join(command)} ended with {process.returncode}:\n{_tail(errors or output)}"
        )
    if "cannot be preloaded" in errors:
        raise LaunchError(f"the library could not be preloaded:\n{_tail(errors)}")
    return output


def _tail(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def _summary(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError):
        return None


def unpinned(config: Line) -> bool:
    """True if two ranks of a host may run on the same CPU."""
    taken: set[tuple[str, int]] = set()
    for host, cpus in zip(config["hosts"], config["cpus"], strict=True):
        mine = {(host, cpu) for cpu in expand(cpus)}
        if taken & mine:
            return True
        taken |= mine
    return False
