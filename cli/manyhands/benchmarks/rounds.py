# SPDX-License-Identifier: BSD-3-Clause
"""Rounds in which arms take turns: who begins, and what chance alone would make of them.

Chance is that of the sign test: each round is as likely above its true median as below, however
the noise is distributed, if it strikes rounds independently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

UNLIKELY = 0.05

Arm = TypeVar("Arm")


def in_turn(arms: Sequence[Arm], nth_round: int) -> Sequence[Arm]:
    """Who was last begins: no arm gains from a machine that speeds up or slows down."""
    return arms if nth_round % 2 == 0 else arms[::-1]


def chance(at_most: int, rounds: int) -> float:
    """That so many rounds or fewer are on a given side of the true median."""
    return sum(math.comb(rounds, n) for n in range(at_most + 1)) / 2**rounds


def left_aside(rounds: int) -> int:
    """How many rounds at either end the range leaves out that holds the median in 95 % of cases."""
    return max((n for n in range(rounds) if 2 * chance(n, rounds) <= UNLIKELY), default=0)
