# SPDX-License-Identifier: BSD-3-Clause
"""The bars of messages in a shared heap and of collectives, size by size.

A bar is the least ratio of the first arm's time to the time of another arm. A size meets its bar if
the median over the rounds does. A missed bar counts only if a sign test distinguishes the median
from the bar (rounds.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from manyhands_bench.case import HEAP, NO_HEAP
from manyhands_bench.rounds import told_apart
from manyhands_bench.stats import WITHIN_5_PERCENT, Comparison, Subject

_K = 1 << 10
_M = 1 << 20
_MESSAGES: dict[str, dict[int, float]] = {
    "short-exchange": dict.fromkeys(
        (8, 128, 512, _K, 2 * _K, 4 * _K, 8 * _K, 16 * _K, 32 * _K), WITHIN_5_PERCENT
    ),
    "busy-exchange": dict.fromkeys((64 * _K, 256 * _K, _M, 4 * _M), 2.5) | {8 * _M: 1.6},
    "busy-one-way": dict.fromkeys((64 * _K, 256 * _K, _M), 3.0),
}
_PLANES = "planes-heap"  # in this case the first arm is helped, without a heap
_MOVES = ("bcast", "allgather", "alltoall")
_SUMS = ("reduce", "allreduce")
_COLLECTIVES: dict[int, dict[str, float]] = {
    _K: dict.fromkeys((*_MOVES, *_SUMS), 1.2),
    8 * _K: dict.fromkeys((*_MOVES, *_SUMS), 1.8),
    64 * _K: dict.fromkeys(_MOVES, 1.6) | dict.fromkeys(_SUMS, 2.0),
    _M: dict.fromkeys(_MOVES, 1.6) | dict.fromkeys(_SUMS, 2.0),
    8 * _M: dict.fromkeys((*_MOVES, *_SUMS), WITHIN_5_PERCENT),
    8: {"allreduce": 1.3},
}
# For each case of collectives, the arm (a way to launch the program) that must meet the bounds.
# Short collectives must be fast without a shared heap.
_ARM = {"collectives": NO_HEAP, "collectives-large": HEAP}
CASES = (*_MESSAGES, _PLANES, *_ARM)


def bar(case: str, subject: Subject) -> float | None:
    if subject.kind == "collective":
        if subject.name == "limit":
            return None
        return _COLLECTIVES.get(subject.bytes, {}).get(subject.name, WITHIN_5_PERCENT)
    if subject.kind == "pingpong":
        return _MESSAGES.get(case, {}).get(subject.bytes)
    if case != _PLANES:
        return None
    depth = int(subject.name.rpartition("Z = ")[2])
    return 1.2 if depth >= 64 else 1.0


@dataclass(frozen=True)
class Verdict:
    case: str
    comparison: Comparison
    at_least: float

    @property
    def reached(self) -> int:
        """The number of rounds that reach the bar."""
        return sum(ratio >= self.at_least for ratio in self.comparison.ratios)

    @property
    def met(self) -> bool:
        return self.comparison.ratio >= self.at_least

    @property
    def told_apart(self) -> bool:
        """True if the bar is missed and chance alone would rarely leave so many rounds below it."""
        return not self.met and told_apart(self.reached, len(self.comparison.ratios))


def verdicts(case: str, comparisons: list[Comparison]) -> list[Verdict]:
    arm = _ARM.get(case, HEAP)
    bars = [(c, bar(case, c.subject)) for c in comparisons if c.arm == arm.name]
    return [Verdict(case, c, at_least) for c, at_least in bars if at_least]
