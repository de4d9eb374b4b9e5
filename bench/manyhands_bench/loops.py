# SPDX-License-Identifier: BSD-3-Clause
"""Evaluates the cases of loops: gains, times by rank, sweeps over imbalances, and their bars.

Records are those of `mh bench`: one per case, variant and MPI, with rounds of {arm: lines}. The
time of a launch is the median of its repetitions. It is their mean if another program disturbs the
ranks, since the median would hide that program's effect. A number over rounds is their median.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple

from manyhands_bench.rounds import told_apart
from manyhands_bench.stats import Estimator, Line, Subject, compare, estimates

Record = dict[str, Any]
DEFAULT_VICTIM = "nearest"  # default of the setting MH_VICTIM
IDEAL = "ideal"  # name of the simulated arm that no other arm can beat
STATIC_PROGRAMS = ("loops-gradients", "loops-elements", "loops-hydrodynamics")
MARKED_CASES = ("loops-marked", "loops-marked-equal", "loops-triangles", "loops-marked-elements")
_BALANCED = 0.05  # largest excess of work over the mean that counts as balanced
_LEAST_TO_GAIN = 1.1  # plain over ideal time; below, there is too little to gain


class Gain(NamedTuple):
    """The gain of a shared loop as a fraction of the possible gain."""

    variant: str
    loop: str
    ideal_ns: float  # mean of the ranks' own times in the plain arm
    gained: tuple[float, ...]  # part of the possible gain, by round


def gains(record: Record, pick: Estimator) -> list[Gain]:
    """Gains of the last arm over the first, for loops whose ideal time is well below the plain."""
    plain_name, shared_name = record["arms"][0], record["arms"][-1]
    found: dict[str, list[tuple[float, float]]] = {}
    for one in record["rounds"]:
        shared = estimates(one.get(shared_name, []), pick)
        for line in one.get(plain_name, []):
            subject = Subject("loop", line.get("name", ""), 0)
            if "ideal_ns" not in line or subject not in shared:
                continue
            plain, ideal = pick(line["mean_ns"]), pick(line["ideal_ns"])
            if plain > _LEAST_TO_GAIN * ideal:
                gained = (plain - shared[subject]) / (plain - ideal)
                found.setdefault(line["name"], []).append((ideal, gained))
    return [
        Gain(_variant(record), name, median(i for i, _ in pairs), tuple(g for _, g in pairs))
        for name, pairs in found.items()
    ]


def estimator(case: str, pick: Estimator) -> Estimator:
    """The mean for the case with a disturbing program, whose effect the median would hide; `pick`
    for other cases.
    """
    return fmean if case == "loops-disturbed" else pick


def _variant(record: Record) -> str:
    return record.get("variant", "")  # results stored by early versions have no variant


class RankTime(NamedTuple):
    loop: str
    rank: int
    arms: dict[str, float]  # median over rounds, ns


def rank_times(record: Record, pick: Estimator) -> list[RankTime]:
    """The time of each rank in its own loop, by arm."""
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    for one in record["rounds"]:
        for arm, lines in one.items():
            for line in lines:
                for rank, times in line.get("rank_ns", {}).items():
                    arms = found.setdefault((line["name"], int(rank)), {})
                    arms.setdefault(arm, []).append(pick(times))
    return [
        RankTime(loop, rank, {arm: median(times) for arm, times in arms.items()})
        for (loop, rank), arms in sorted(found.items())
    ]


class Step(NamedTuple):
    """A step of a sweep: an imbalance, and times by round in ns. `ideal` is empty if unknown."""

    over_mean: float  # work of the largest rank over the mean, minus 1
    over_smallest: float  # work of the largest rank over that of the smallest, minus 1
    plain: tuple[float, ...]
    shared: tuple[float, ...]
    ideal: tuple[float, ...] = ()


def sweep(records: list[Record], pick: Estimator) -> list[Step]:
    """The steps of one case and MPI in the order of their imbalance."""
    steps = []
    for record in records:
        plain_name, shared_name = record["arms"][0], record["arms"][-1]
        of_name = _lines_with_imbalance(record)
        for c in compare(record["rounds"], [plain_name, shared_name], pick):
            line = of_name.get(c.subject.name)
            if line is not None:
                over = (line["over_mean"], line["over_smallest"])
                ideal = _ideals(record["rounds"], plain_name, c.subject.name, pick)
                steps.append(Step(*over, c.plain, c.other, ideal))
    return sorted(steps, key=lambda step: step.over_mean)


def _ideals(
    rounds: list[dict[str, list[Line]]], plain: str, name: str, pick: Estimator
) -> tuple[float, ...]:
    lines = (line for one in rounds for line in one.get(plain, []) if line.get("name") == name)
    return tuple(pick(line["ideal_ns"]) for line in lines if "ideal_ns" in line)


def _lines_with_imbalance(record: Record) -> dict[str, Line]:
    lines = (line for one in record["rounds"] for arm in one.values() for line in arm)
    return {line["name"]: line for line in lines if "over_mean" in line}


def growth(times: list[tuple[float, ...]]) -> float:
    """The longest over the shortest of the medians. 1 means that all are equal."""
    medians = [median(each) for each in times]
    return max(medians) / min(medians)


# ---- Bounds that the measured numbers must meet --------------------------------------------------


class Finding(NamedTuple):
    """A number that a bar limits, over all rounds and in each round."""

    where: str
    value: float
    rounds: tuple[float, ...]


@dataclass(frozen=True)
class LoopBar:
    name: str
    cases: tuple[str, ...]
    find: Callable[[list[Record], Estimator], list[Finding]]  # gets one MPI's records of `cases`
    text: Callable[[float], str]
    at_least: float | None = None
    at_most: float | None = None

    def met_by(self, value: float) -> bool:
        if self.at_least is not None:
            return value >= self.at_least
        assert self.at_most is not None
        return value <= self.at_most


class LoopVerdict(NamedTuple):
    bar: LoopBar
    worst: Finding | None  # None: not measured
    met: bool
    within_noise: bool  # missed, but a sign test does not tell the median from the bar


def _gained(long: bool) -> Callable[[list[Record], Estimator], list[Finding]]:
    def find(records: list[Record], pick: Estimator) -> list[Finding]:
        return [
            Finding(f"{g.variant} {g.loop}".strip(), median(g.gained), g.gained)
            for record in records
            for g in gains(record, pick)
            if _micros(g.loop) >= 500 and (_micros(g.loop) >= 2000) == long
        ]

    return find


def _gained_by_programs(records: list[Record], pick: Estimator) -> list[Finding]:
    return [
        Finding(gain.loop, median(gain.gained), gain.gained)
        for record in records
        for gain in gains(record, pick)
        if _lines_with_imbalance(record)[gain.loop]["over_mean"] > _BALANCED
    ]


def _balanced_programs(records: list[Record], pick: Estimator) -> list[Finding]:
    found = []
    for record in records:
        for step in sweep([record], pick):
            if step.over_mean <= _BALANCED:
                ratios = tuple(p / s for p, s in zip(step.plain, step.shared, strict=True))
                found.append(Finding(record["case"], median(ratios), ratios))
    return found


def _micros(loop: str) -> int:
    return int(loop.split()[1]) if loop.startswith("triangle ") else 0


def _ratios(records: list[Record], pick: Estimator) -> list[Finding]:
    return [
        Finding(f"{_variant(record)} {c.subject.name}".strip(), c.ratio, tuple(c.ratios))
        for record in records
        for c in compare(record["rounds"], record["arms"], estimator(record["case"], pick))
    ]


def _shared_time(name: str) -> Callable[[list[Record], Estimator], list[Finding]]:
    def find(records: list[Record], pick: Estimator) -> list[Finding]:
        return [
            Finding(_variant(record), median(c.other), c.other)
            for record in records
            for c in compare(record["rounds"], record["arms"], pick)
            if c.subject.name == name
        ]

    return find


def _flatness(records: list[Record], pick: Estimator) -> list[Finding]:
    steps = sweep(records, pick)
    if len(steps) < 2:
        return []
    rounds = zip(*(step.shared for step in steps), strict=False)
    by_round = tuple(max(times) / min(times) for times in rounds)
    return [Finding("longest over shortest", growth([s.shared for s in steps]), by_round)]


def _over_best_policy(records: list[Record], pick: Estimator) -> list[Finding]:
    """The time of the default policy over the time of the best policy, for each loop."""
    found = []
    for record in records:
        times: dict[str, dict[str, float]] = {}
        for c in compare(record["rounds"], record["arms"], pick):
            if c.arm != IDEAL:
                times.setdefault(c.subject.name, {})[c.arm] = median(c.other)
        for loop, by_policy in times.items():
            over = by_policy[DEFAULT_VICTIM] / min(by_policy.values())
            found.append(Finding(f"{_variant(record)} {loop}".strip(), over, (over,)))
    return found


def _percent(value: float) -> str:
    return f"{value:.0%}"


def _factor(value: float) -> str:
    return f"{value:.3f}"


def _ns(value: float) -> str:
    return f"{value:.1f} ns"


BARS = (
    LoopBar("loops of 2 ms and more: 95 % of the gain", ("loops",), _gained(True), _percent, 0.95),
    LoopBar("loops of 500 us: 85 % of the gain", ("loops",), _gained(False), _percent, 0.85),
    LoopBar("equal work: within 1 %", ("loops-balanced",), _ratios, _factor, 1 / 1.01),
    LoopBar(
        "start of an open loop: at most 50 ns",
        ("loops-empty",),
        _shared_time("exposed start"),
        _ns,
        at_most=50,
    ),
    LoopBar(
        "chunk of it: at most 10 ns",
        ("loops-empty",),
        _shared_time("exposed chunk"),
        _ns,
        at_most=10,
    ),
    LoopBar("imbalance: flat within 5 %", ("loops-imbalance",), _flatness, _factor, at_most=1.05),
    LoopBar(
        "programs with static loops: 75 % of the gain",
        STATIC_PROGRAMS,
        _gained_by_programs,
        _percent,
        0.75,
    ),
    LoopBar(
        "the same, balanced: within 2 %", STATIC_PROGRAMS, _balanced_programs, _factor, 1 / 1.02
    ),
    LoopBar("marked: within 1 % of omp", MARKED_CASES, _ratios, _factor, 1 / 1.01),
    LoopBar(
        "more ranks than cores: within 3 %",
        ("loops-crowded", "loops-crowded-balanced"),
        _ratios,
        _factor,
        1 / 1.03,
    ),
    LoopBar("two nodes: within 3 %", ("loops-nodes",), _ratios, _factor, 1 / 1.03),
    LoopBar("with a third program: within 5 %", ("loops-disturbed",), _ratios, _factor, 1 / 1.05),
    LoopBar(
        "MH_VICTIM: default within 3 % of best",
        ("loops-victims", "loops-victims-simulated"),
        _over_best_policy,
        _factor,
        at_most=1.03,
    ),
)


def judge(bar: LoopBar, records: list[Record], pick: Estimator) -> LoopVerdict:
    """The verdict on a bar. The finding with the worst value decides."""
    found = bar.find([r for r in records if r["case"] in bar.cases], pick)
    if not found:
        return LoopVerdict(bar, None, False, False)
    sign = 1 if bar.at_least is not None else -1
    worst = min(found, key=lambda f: sign * f.value)
    met = bar.met_by(worst.value)
    single = len(worst.rounds) == 1  # a number over all rounds, which no sign test judges
    apart = single or told_apart(sum(map(bar.met_by, worst.rounds)), len(worst.rounds))
    return LoopVerdict(bar, worst, met, not met and not apart)


def verdicts(records: list[Record], pick: Estimator) -> list[LoopVerdict]:
    """The verdicts on all bars that the records of one MPI measure."""
    found = (judge(bar, records, pick) for bar in BARS)
    return [verdict for verdict in found if verdict.worst is not None]


def as_json(mpi: str, verdict: LoopVerdict) -> dict[str, Any]:
    assert verdict.worst is not None
    return {
        "bar": verdict.bar.name,
        "mpi": mpi,
        "worst": verdict.worst.where,
        "value": verdict.worst.value,
        "rounds": list(verdict.worst.rounds),
        "met": verdict.met,
    }
