# SPDX-License-Identifier: BSD-3-Clause
"""Rounds in which arms take turns: their order, and the effect of chance alone.

Probabilities are those of the sign test: a round is as likely above the true median as below, for
any distribution of the noise, if the noise of the rounds is independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

UNLIKELY = 0.05

Arm = TypeVar("Arm")


def in_turn(arms: Sequence[Arm], nth_round: int) -> Sequence[Arm]:
    """The arms in the order of a round. Every second round has the reverse order, so no arm gains
    from a machine that changes speed.
    """
    return arms if nth_round % 2 == 0 else arms[::-1]


def chance(at_most: int, rounds: int) -> float:
    """The probability that at most `at_most` rounds are on a given side of the true median."""
    return sum(math.comb(rounds, n) for n in range(at_most + 1)) / 2**rounds


def told_apart(reached: int, rounds: int) -> bool:
    """True if so few rounds reach a bar, which the median misses, that chance alone is unlikely."""
    return 2 * chance(reached, rounds) <= UNLIKELY


def left_aside(rounds: int) -> int:
    """The number of lowest rounds, and of highest rounds, that are outside of the 95 % range of the
    median.
    """
    return max((n for n in range(rounds) if 2 * chance(n, rounds) <= UNLIKELY), default=0)
