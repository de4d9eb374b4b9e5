# SPDX-License-Identifier: BSD-3-Clause
"""The statistics of the benchmarks: estimators, ratios with their spread, limits, bars.

A *launch* prints JSON lines with all samples. `estimates` reduces the samples to a time per
*subject* (kind, name, bytes) by the median, which ignores the few batches that an interrupt hit. A
`Comparison` pairs the launch of an arm with the launch of the first arm in the same round, so that
slow drift of the machine cancels. Its spread is the range of the ratios of all rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

NOISY_SPREAD = 0.10  # a range of ratios wider than this part of their median is called noisy
Line = dict[str, Any]


class Subject(NamedTuple):
    """The measured thing: an operation at a size."""

    # The kind of measurement: pingpong | touch | latency | loaded latency | collective | onesided |
    # threads | message | loop | object | program. For messages of noncontiguous data: pack |
    # pack-unpack | bundle.
    kind: str
    # The name of the collective, operation, loop, type or part of a program; for the kind `message`
    # "first" or "settled"; for other kinds "".
    name: str
    bytes: int


class Limit(NamedTuple):
    """The rate of memcpy in GB/s at a size: of one rank alone, and of two ranks together."""

    one: float
    together: float


Estimator = Callable[[list[float]], float]


def estimates(lines: list[Line], pick: Estimator = median) -> dict[Subject, float]:
    """A time in ns per subject of a launch; `pick` reduces the batches (`min`: best case)."""
    found: dict[Subject, float] = {}
    for line in lines:
        reader = _READERS.get(line["kind"])
        if reader is not None:
            found.update(reader(line, pick))
    return found


def _pingpong(line: Line, pick: Estimator) -> dict[Subject, float]:
    size = line["bytes"]
    times = {Subject("pingpong", "", size): pick(line.get("median_ns", line["mean_ns"]))}
    if "touch_ns" in line:
        times[Subject("touch", "", size)] = pick(line["touch_ns"])
    return times


def _latency(line: Line, pick: Estimator) -> dict[Subject, float]:
    if not line["load_bytes"]:
        return {Subject("latency", "", 8): pick(line["mean_ns"])}
    p50, p99, *_ = line["p50_p99_p999_max_ns"]
    return {
        Subject("loaded latency", "median", 8): p50,
        Subject("loaded latency", "p99", 8): p99,
    }


def _collective(line: Line, pick: Estimator) -> dict[Subject, float]:
    return {Subject("collective", line["name"], line["bytes"]): pick(line["mean_ns"])}


def _onesided(line: Line, pick: Estimator) -> dict[Subject, float]:
    return {Subject("onesided", line["name"], line["bytes"]): pick(line["mean_ns"])}


def _threads(line: Line, pick: Estimator) -> dict[Subject, float]:
    count, size = line["threads"], line["bytes"]
    name = f"{count} thread{'s' if count > 1 else ''}"
    times = {Subject("threads", name, size): pick(line["mean_ns"])}
    if count > 1 and "posted_ns" in line:
        times[Subject("threads", f"1 behind {count - 1} posted", size)] = pick(line["posted_ns"])
    return times


def _waiters(line: Line, pick: Estimator) -> dict[Subject, float]:
    first, *rest = line["message_ns"]
    times = {Subject("message", "first", line["bytes"]): pick(first)}
    if rest:
        settled = [ns for message in rest[len(rest) // 2 :] for ns in message]
        times[Subject("message", "settled", line["bytes"])] = pick(settled)
    return times


def _loop(line: Line, pick: Estimator) -> dict[Subject, float]:
    return {Subject("loop", line["name"], 0): pick(line["mean_ns"])}


def _object(line: Line, pick: Estimator) -> dict[Subject, float]:
    return {Subject("object", line["name"], 0): pick(line["mean_ns"])}


def _program(line: Line, pick: Estimator) -> dict[Subject, float]:
    return {Subject("program", line["name"], 0): pick(line["mean_ns"])}


def _noncontiguous(line: Line, pick: Estimator) -> dict[Subject, float]:
    return {Subject(line["way"], line["type"], line["bytes"]): pick(line["median_ns"])}


_READERS = {
    "pingpong": _pingpong,
    "latency": _latency,
    "collective": _collective,
    "onesided": _onesided,
    "threads": _threads,
    "waiters": _waiters,
    "loop": _loop,
    "object": _object,
    "program": _program,
    "noncontiguous": _noncontiguous,
}


@dataclass(frozen=True)
class Comparison:
    """The first arm (`plain`) against another arm, round by round, for one subject. Times in ns."""

    subject: Subject
    arm: str
    plain: tuple[float, ...]
    other: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        return [p / o for p, o in zip(self.plain, self.other, strict=True)]

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def low(self) -> float:
        return min(self.ratios)

    @property
    def high(self) -> float:
        return max(self.ratios)

    @property
    def noisy(self) -> bool:
        return (self.high - self.low) / self.ratio > NOISY_SPREAD

    @property
    def plain_ns(self) -> float:
        return median(self.plain)

    @property
    def other_ns(self) -> float:
        return median(self.other)

    @property
    def added_ns(self) -> float:
        """The median over the rounds of the time that the arm takes more than the first arm."""
        return median(o - p for p, o in zip(self.plain, self.other, strict=True))


def compare(
    rounds: list[dict[str, list[Line]]], arms: list[str], pick: Estimator = median
) -> list[Comparison]:
    """Comparisons of every arm with the first, from rounds of {arm: lines of its launch}.

    A round in which the launch of an arm failed lacks the arm and is left out of its comparisons.
    """
    plain_name, *others = arms
    reduced = [{arm: estimates(lines, pick) for arm, lines in one.items()} for one in rounds]
    subjects = list(dict.fromkeys(s for one in reduced for s in one.get(plain_name, {})))
    found = []
    for subject in subjects:
        for arm in others:
            pairs = [
                (one[plain_name][subject], one[arm][subject])
                for one in reduced
                if subject in one.get(plain_name, {}) and subject in one.get(arm, {})
            ]
            if pairs:
                plain, other = zip(*pairs, strict=True)
                found.append(Comparison(subject, arm, plain, other))
    return found


def limits(rounds: list[dict[str, list[Line]]]) -> dict[int, Limit]:
    """The rates of memcpy by size: medians over all launches, of one rank and of two together."""
    rates: dict[tuple[int, int], list[float]] = {}
    for one in rounds:
        for lines in one.values():
            for line in lines:
                if line["kind"] == "memcpy":
                    key = (line["bytes"], line["ranks"])
                    rates.setdefault(key, []).extend(line["gb_per_s"])
    return {
        size: Limit(median(values), median(rates[size, 2]))
        for (size, ranks), values in rates.items()
        if ranks == 1 and (size, 2) in rates
    }


class Beside(NamedTuple):
    """Reference times for a noncontiguous message, in ns per message."""

    loop: float  # a hand-written loop on one core
    loops: float  # the hand-written loop on both cores, each on its own data
    copies: float  # memcpy of the packed bytes on both cores


def beside(rounds: list[dict[str, list[Line]]]) -> dict[Subject, Beside]:
    """The reference times by subject: medians over all launches."""
    found: dict[Subject, list[Line]] = {}
    for one in rounds:
        for lines in one.values():
            for line in lines:
                if line["kind"] == "noncontiguous":
                    subject = Subject(line["way"], line["type"], line["bytes"])
                    found.setdefault(subject, []).append(line)
    return {
        subject: Beside(
            *(
                median(ns for line in lines for ns in line[name])
                for name in ("loop_ns", "loops_ns", "memcpys_ns")
            )
        )
        for subject, lines in found.items()
    }


def best_rate(rounds: list[dict[str, list[Line]]], arm: str, size: int) -> float | None:
    """GB/s of the fastest single message of that size in any launch of the arm."""
    times = [
        min(line.get("min_ns", line["mean_ns"]))
        for one in rounds
        for line in one.get(arm, [])
        if line["kind"] == "pingpong" and line["bytes"] == size
    ]
    return size / min(times) if times else None


@dataclass(frozen=True)
class Bar:
    """A requirement on a helped arm. The worst of all subjects that the bar covers decides."""

    name: str
    kind: str
    smallest: int
    largest: int
    at_least: float | None = None  # ratio plain / helped
    added_ns: float | None = None  # in place of at_least: the most time that the helped arm may add
    of_mpi: dict[str, float] = field(default_factory=dict)  # by MPI build: replaces at_least
    depths: tuple[int, ...] = ()  # depths Z of planes; empty: any name

    def covers(self, subject: Subject) -> bool:
        if self.depths and not any(subject.name.endswith(f"Z = {z}") for z in self.depths):
            return False
        return subject.kind == self.kind and self.smallest <= subject.bytes <= self.largest

    def ratio_for(self, mpi: str) -> float:
        found = self.of_mpi.get(mpi, self.at_least)
        assert found is not None
        return found


WITHIN_5_PERCENT = 1 / 1.05
BARS = (
    Bar("8 MB: at least 1.75x", "pingpong", 8 << 20, 8 << 20, at_least=1.75),
    Bar("512 KB: at least 1.3x", "pingpong", 512 << 10, 512 << 10, at_least=1.3),
    Bar("64-256 KB: never slower", "pingpong", 64 << 10, 256 << 10, at_least=1.0),
    Bar("8 B-32 KB: within 5 %", "pingpong", 8, 32 << 10, at_least=WITHIN_5_PERCENT),
    Bar("latency: within 25 ns", "latency", 8, 8, added_ns=25),
)
# The bounds for the case pingpong-cells, in which the kernel does not copy between processes and
# messages go through cells.
CELL_BARS = (
    Bar("8 MB, no CMA: not slower", "pingpong", 8 << 20, 8 << 20, at_least=1.0),
    Bar("8 B-32 KB, no CMA: 5 %", "pingpong", 8, 32 << 10, at_least=WITHIN_5_PERCENT),
)


def _planes(name: str, kind: str, size: int, depths: tuple[int, ...], **of_mpi: float) -> Bar:
    return Bar(name, kind, size, size, at_least=1.0, of_mpi=of_mpi, depths=depths)


DEEPER = (8, 64, 256, 4096)
# The bounds for messages with gaps. A value under the name of an MPI library is the least speed-up
# with this library. Without one, launches with Manyhands must not be slower than plain launches.
PLANE_BARS = (
    _planes("32 MB, pack, Z = 1", "pack", 32 << 20, (1,), mpich4=10, openmpi4=3),
    _planes("32 MB, pack, Z from 8", "pack", 32 << 20, DEEPER, mpich4=2.2, openmpi4=1.6),
    _planes("32 MB, pack-unpack", "pack-unpack", 32 << 20, (1, *DEEPER), mpich4=2, openmpi4=1.5),
    _planes("1 MB, pack", "pack", 1 << 20, (1, *DEEPER)),
    _planes("1 MB, pack-unpack", "pack-unpack", 1 << 20, (1, *DEEPER)),
    Bar("32 MB, bundle over separate", "bundle", 32 << 20, 32 << 20, at_least=1.3),
)


class Verdict(NamedTuple):
    bar: Bar
    worst: Comparison | None  # None: not measured
    met: bool
    within_noise: bool  # the median does not meet the bar, but some of the rounds do


def judge(bar: Bar, comparisons: list[Comparison], mpi: str = "") -> Verdict:
    """The verdict on a bar. The covered subject with the worst median decides."""
    covered = [c for c in comparisons if bar.covers(c.subject)]
    if not covered:
        return Verdict(bar, None, False, False)
    if bar.added_ns is not None:
        worst = max(covered, key=lambda c: c.added_ns)
        best_pair = min(o - p for p, o in zip(worst.plain, worst.other, strict=True))
        met = worst.added_ns <= bar.added_ns
        return Verdict(bar, worst, met, not met and best_pair <= bar.added_ns)
    required = bar.ratio_for(mpi)
    worst = min(covered, key=lambda c: c.ratio)
    met = worst.ratio >= required
    return Verdict(bar, worst, met, not met and worst.high >= required)
