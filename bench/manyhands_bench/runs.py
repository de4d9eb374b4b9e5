# SPDX-License-Identifier: BSD-3-Clause
"""Runs cases: every round launches each variant of a case in turn, with all its arms.

Every second round has the arms in reverse order. Interleaved arms are launched together. The
results, in memory and in the JSON file, are a *record* per MPI, case and variant:
  {"case", "variant", "mpi", "arms": [names], "rounds": [{arm: lines}], "config", "summaries",
  "errors"}.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from manyhands_bench import launch, programs
from manyhands_bench.case import Case, Variant
from manyhands_bench.host import Machine
from manyhands_bench.loops import Record
from manyhands_bench.mpis import MpiBuild
from manyhands_bench.rounds import in_turn
from manyhands_bench.stats import Line


@dataclass(frozen=True)
class Conditions:
    """The conditions that all launches have in common."""

    machine: Machine
    checkout: Path
    library: Path | None  # None: every arm is plain
    rounds: int
    rest_s: float  # before each round
    oversubscribe: bool
    say: Callable[[str], None]  # called for each variant that is left out
    advance: Callable[[], None]  # called after each launch


def variants(case: Case, build: MpiBuild, given: Conditions) -> list[Variant]:
    """The variants of a case that can run on this machine; given.say() tells why others cannot."""
    found = []
    for variant in case.variants(given.machine):
        lack = case.lacks(variant, given.machine, given.oversubscribe)
        lack = lack or programs.lacking(build, variant.way) or case.not_under.get(build.name)
        if lack is None:
            found.append(variant)
        else:
            given.say(f"{build.name} {case.name} {variant.name} cannot run here: {lack}")
    return found


def launches(case: Case, count: int, rounds: int) -> int:
    """The number of launches of `count` variants of a case."""
    return count * len(case.arms) * rounds_of(case, rounds)


def rounds_of(case: Case, rounds: int) -> int:
    return rounds if len(case.arms) > 1 and not case.simulated else 1


def run_case(case: Case, build: MpiBuild, chosen: list[Variant], given: Conditions) -> list[Record]:
    binaries = [_binaries(case, variant, build, given.checkout) for variant in chosen]
    records = [_new_record(case, variant, build) for variant in chosen]
    for _ in range(rounds_of(case, given.rounds)):
        time.sleep(given.rest_s)
        for record, variant, of_arm in zip(records, chosen, binaries, strict=True):
            record["rounds"].append(_run_arms(case, variant, build, of_arm, given, record))
    return records


def _binaries(case: Case, variant: Variant, build: MpiBuild, checkout: Path) -> dict[str, Path]:
    """The binary of each arm."""
    return {
        arm.name: programs.compile_program(build, checkout, case.program, variant.way.of(arm))
        for arm in case.arms
    }


def _new_record(case: Case, variant: Variant, build: MpiBuild) -> Record:
    return {
        "case": case.name,
        "variant": variant.name,
        "mpi": build.name,
        "arms": [arm.name for arm in case.arms],
        "config": None,
        "rounds": [],
        "summaries": {},
        "errors": [],
    }


def _run_arms(
    case: Case,
    variant: Variant,
    build: MpiBuild,
    binaries: dict[str, Path],
    given: Conditions,
    record: Record,
) -> dict[str, list[Line]]:
    done: dict[str, list[Line]] = {}
    arms = in_turn(case.arms, len(record["rounds"]))
    for together in [arms] if case.interleaved else [[arm] for arm in arms]:
        names = ", ".join(arm.name for arm in together)
        binary = binaries[together[0].name]  # interleaved arms have the same
        try:
            found = launch.run_all(
                build, binary, case, together, given.machine, given.library, variant
            )
            for name, result in found.items():
                check_same(done, result.lines)
                _add(record, name, result)
                done[name] = result.lines
        except launch.LaunchError as error:
            record["errors"].append(f"{names}: {error}")
        for _ in together:
            given.advance()
    return done


def _add(record: Record, arm: str, result: launch.Launch) -> None:
    record["config"] = record["config"] or result.config
    if result.summary is not None:
        record["summaries"][arm] = result.summary


def _hashes(lines: list[Line]) -> list[str]:
    """The results that a launch names. Its other lines need not be those of another launch."""
    return [line["hash"] for line in lines if "hash" in line]


def check_same(before: dict[str, list[Line]], lines: list[Line]) -> None:
    """A program that names its result must have the same result in every arm."""
    for others in before.values():
        if _hashes(others) != _hashes(lines):
            raise launch.LaunchError("the result differs from the result of another arm")
