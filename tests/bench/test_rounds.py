# SPDX-License-Identifier: BSD-3-Clause
"""Tests which arm begins a round, and checks the range of the median by counting all outcomes."""

from __future__ import annotations

import itertools

import pytest
from manyhands_bench.rounds import UNLIKELY, chance, in_turn, left_aside, told_apart


def outcomes(rounds: int) -> list[int]:
    """Returns the number of rounds above the true median, for each outcome."""
    return [sum(above) for above in itertools.product((0, 1), repeat=rounds)]


def chance_outside(rounds: int, aside: int) -> float:
    """Returns the probability that the true median is outside the range that leaves out `aside`
    values at either end.
    """
    ways = outcomes(rounds)
    return sum(n <= aside or n >= rounds - aside for n in ways) / len(ways)


def test_who_was_last_begins_the_next_round() -> None:
    order = [in_turn(("plain", "helped"), i) for i in range(3)]
    assert order == [("plain", "helped"), ("helped", "plain"), ("plain", "helped")]


@pytest.mark.parametrize("rounds", range(1, 10))
def test_chance_is_the_share_of_outcomes(rounds: int) -> None:
    ways = outcomes(rounds)
    for most in range(rounds + 1):
        assert chance(most, rounds) == sum(n <= most for n in ways) / len(ways)


@pytest.mark.parametrize("rounds", range(6, 15))
def test_the_range_holds_the_median_with_95_percent_and_is_no_wider(rounds: int) -> None:
    aside = left_aside(rounds)
    assert chance_outside(rounds, aside) <= UNLIKELY < chance_outside(rounds, aside + 1)


@pytest.mark.parametrize("rounds", range(1, 6))
def test_the_range_of_few_rounds_is_all_of_them(rounds: int) -> None:
    assert left_aside(rounds) == 0


@pytest.mark.parametrize(("rounds", "most"), [(5, -1), (6, 0), (9, 1), (11, 1), (12, 2)])
def test_a_bar_is_told_apart_if_few_rounds_reach_it(rounds: int, most: int) -> None:
    told = [reached for reached in range(rounds // 2) if told_apart(reached, rounds)]
    assert told == list(range(most + 1))
