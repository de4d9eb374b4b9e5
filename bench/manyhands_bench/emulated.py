# SPDX-License-Identifier: BSD-3-Clause
"""`mh bench --emulate`: messages on a node that this machine does not have.

The ranks run on this machine, with the real library: their claims, flags and decisions are real. A
thread that has done a piece of work sleeps until the time that a model gives this work, stretched
by a dilation, is over (bench/emulate). Every number is called emulated, and is in nanoseconds of
the modelled machine. The greatest number of helpers of each series is measured again at twice the
dilation: a number that depends on the dilation shows this machine and not the model.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from manyhands_bench import emulated_nodes, launch, programs
from manyhands_bench.case import Arm, Case, args, ranks
from manyhands_bench.emulated_cases import LOOPS, Series
from manyhands_bench.emulated_nodes import Model
from manyhands_bench.emulated_results import Result
from manyhands_bench.host import Machine
from manyhands_bench.mpis import MpiBuild

_SPENT = struct.Struct("QQ")  # Spent in bench/emulate/emulator.cpp


@dataclass(frozen=True)
class Conditions:
    model: Model
    build: MpiBuild
    machine: Machine
    checkout: Path
    library: Path


@dataclass(frozen=True)
class Step:
    """A launch: those sizes of a series that have the same dilation."""

    series: Series
    sizes: tuple[int, ...]
    dilation: float


def library_of(checkout: Path) -> Path:
    """The emulating library, built with -DMH_EMULATE=ON."""
    return checkout / "build-emulate" / "lib" / "libmanyhands.so"


def steps(all_series: list[Series]) -> list[Step]:
    """The launches of all series. A launch with the most helpers of its case and label is followed
    by the same launch at twice the dilation.
    """
    found = []
    most: dict[tuple[str, str], int] = {}
    for one in all_series:
        most[one.case, one.label] = max(most.get((one.case, one.label), 0), one.ranks)
    for one in all_series:
        for sizes, dilation in _by_dilation(one):
            found.append(Step(one, sizes, dilation))
            if one.ranks == most[one.case, one.label]:
                found.append(Step(one, sizes, 2 * dilation))
    return found


def _by_dilation(series: Series) -> Iterator[tuple[tuple[int, ...], float]]:
    def key(size: int) -> float:
        return emulated_nodes.dilation_for(size, series.ranks)

    for dilation, sizes in groupby(series.sizes, key):
        yield tuple(sizes), dilation


def run(step: Step, given: Conditions) -> list[Result]:
    """The results of a launch, one for each size. Raises LaunchError."""
    series = step.series
    cores = given.model.places(series.ranks, series.where)
    with tempfile.TemporaryDirectory(prefix="mh-emulate-") as scratch:
        plan, shared = emulated_nodes.write_plan(given.model, cores, step.dilation, Path(scratch))
        case = Case(
            series.case,
            series.label,
            series.program,
            ranks(series.ranks),
            args(*_arguments(step)),
            environment={"MANYHANDS_EMULATION": str(plan), "MH_CORES": str(given.model.cores)},
            crowded=True,
        )
        binary = programs.compile_program(given.build, given.checkout, series.program)
        arm = Arm(series.label, environment=series.settings)
        done = launch.run(given.build, binary, case, arm, given.machine, given.library)
        spent = _spent(shared, series.ranks)
    if series.program == "loops":
        return [_loop_result(line, step, done) for line in done.lines]
    return [_result(line, step, given.model, cores, spent, done) for line in done.lines]


def _arguments(step: Step) -> tuple[str, ...]:
    series, program, sizes = step.series, step.series.program, step.sizes
    if program == "loops":
        length = ("--micros", str(1000 * series.loop_ms), "--sleep", str(round(step.dilation)))
        return (*LOOPS[series.loop][0], *length, "--repeat", "3")
    listed = ",".join(str(size) for size in sizes)
    batches = "2" if max(sizes) <= 1 << 20 else "1"
    short = ("--batches", batches, "--batch-ms", "0.001")
    if program == "pingpong":
        return ("--sizes", listed, "--no-limit", *short)
    return ("--planes", listed, "--z", "64", "--ways", "pack", "--helpers", *short)


def _result(
    line: dict[str, Any],
    step: Step,
    model: Model,
    cores: list[int],
    spent: list[tuple[int, int]],
    done: launch.Launch,
) -> Result:
    series, size = step.series, line["bytes"]
    total = done.summary["total"] if done.summary else {}
    return {
        "case": series.case,
        "label": series.label,
        "helpers": series.helpers,
        "bytes": size,
        "dilation": step.dilation,
        "emulated_ns": [
            round(ns / step.dilation, 1) for ns in line.get("median_ns", line["mean_ns"])
        ],
        "optimum_ns": round(model.optimum_ns(size, cores, series.how), 1),
        "alone_ns": round(model.alone_ns(size, series.how), 1),
        "claims": _share_of_claims(spent),
        "others_bytes": total.get("others_bytes", 0),
        "settings": series.settings,
    }


def _loop_result(line: dict[str, Any], step: Step, done: launch.Launch) -> Result:
    """The result of a loop. Its optimum is the mean of the ranks' work; alone is the longest."""
    series = step.series
    alone = 1e6 * series.loop_ms
    total = done.summary["total"]["loops"] if done.summary else {}
    return {
        "case": series.case,
        "label": series.label,
        "helpers": series.ranks - 1,
        "bytes": 0,
        "dilation": step.dilation,
        "emulated_ns": [round(ns / step.dilation, 1) for ns in line["mean_ns"]],
        "optimum_ns": round(alone / LOOPS[series.loop][1](series.ranks), 1),
        "alone_ns": alone,
        "units_by_others": total.get("units_by_others", 0),
        "settings": series.settings,
    }


def _spent(shared: Path, ranks_: int) -> list[tuple[int, int]]:
    """For each rank, the time in copies (Leaf) and the time on shared cache lines, in nanoseconds
    of the model.
    """
    with shared.open("rb") as file:
        return [_SPENT.unpack(file.read(_SPENT.size)) for _ in range(ranks_)]


def _share_of_claims(spent: list[tuple[int, int]]) -> float:
    """The part of the pair's emulated time that went into shared cache lines."""
    leaves, lines = (sum(each) for each in zip(*spent[:2], strict=True))
    return round(lines / (leaves + lines), 4) if leaves + lines else 0.0


def run_all(
    todo: list[Step], given: Conditions, advance: Callable[[str], None]
) -> tuple[list[Result], list[str]]:
    """All results, and the launches that failed."""
    results: list[Result] = []
    errors: list[str] = []
    for step in todo:
        try:
            results += run(step, given)
        except programs.LaunchError as error:
            errors.append(f"{step.series.case} {step.series.label}, {step.series.ranks}: {error}")
        advance(f"emulated {given.model.name} {step.series.case}")
    return results, errors
