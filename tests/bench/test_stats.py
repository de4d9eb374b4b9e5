# SPDX-License-Identifier: BSD-3-Clause
"""Tests estimators, pairing and bars of `mh bench` on invented samples with known results."""

from __future__ import annotations

import pytest
from manyhands_bench import stats
from manyhands_bench.stats import Bar, Comparison, Subject


def pingpong(size: int, *medians: float) -> stats.Line:
    return {"kind": "pingpong", "bytes": size, "mean_ns": [9e9], "median_ns": list(medians)}


def test_pingpong_uses_the_median_of_the_batch_medians():
    assert stats.estimates([pingpong(8, 10, 500, 12)]) == {Subject("pingpong", "", 8): 12}


def test_pingpong_without_single_timings_uses_batch_means():
    line = {"kind": "pingpong", "bytes": 8, "mean_ns": [3, 1, 2]}
    assert stats.estimates([line]) == {Subject("pingpong", "", 8): 2}


def test_the_best_case_takes_the_fastest_batch():
    assert stats.estimates([pingpong(8, 10, 500, 12)], min) == {Subject("pingpong", "", 8): 10}


def test_the_best_rate_is_that_of_the_fastest_single_message():
    rounds = [{"helped": [pingpong(64, 9) | {"min_ns": [8, 4]}]}, {"helped": [pingpong(64, 9)]}]
    rounds[1]["helped"][0]["min_ns"] = [16]
    assert stats.best_rate(rounds, "helped", 64) == 16
    assert stats.best_rate(rounds, "helped", 128) is None


def test_time_of_the_first_pass_is_a_subject_of_its_own():
    line = pingpong(64, 10) | {"touch_ns": [7, 5, 6]}
    assert stats.estimates([line])[Subject("touch", "", 64)] == 6


def test_loaded_latency_reports_median_and_tail():
    line = {
        "kind": "latency",
        "load_bytes": 4096,
        "mean_ns": [1],
        "p50_p99_p999_max_ns": [10, 99, 999, 5000],
    }
    found = stats.estimates([line])
    assert found[Subject("loaded latency", "median", 8)] == 10
    assert found[Subject("loaded latency", "p99", 8)] == 99


def test_waiters_separate_the_first_message_from_the_settled_ones():
    line = {"kind": "waiters", "bytes": 1, "message_ns": [[100, 104, 102], [60, 60], [50], [40]]}
    found = stats.estimates([line])
    assert found[Subject("message", "first", 1)] == 102
    assert found[Subject("message", "settled", 1)] == 45


def test_threads_stand_beside_one_behind_as_many_receives():
    line = {"kind": "threads", "threads": 1, "bytes": 64, "mean_ns": [9, 8, 7], "posted_ns": [6]}
    assert stats.estimates([line]) == {Subject("threads", "1 thread", 64): 8}
    found = stats.estimates([line | {"threads": 16}])
    assert found[Subject("threads", "16 threads", 64)] == 8
    assert found[Subject("threads", "1 behind 15 posted", 64)] == 6


def test_ratios_pair_launches_of_one_round():
    rounds = [
        {"plain": [pingpong(8, 100)], "helped": [pingpong(8, 50)]},
        {"plain": [pingpong(8, 300)], "helped": [pingpong(8, 100)]},
        {"plain": [pingpong(8, 120)], "helped": [pingpong(8, 60)]},
    ]
    (found,) = stats.compare(rounds, ["plain", "helped"])
    assert found.ratios == [2, 3, 2]
    assert (found.ratio, found.low, found.high) == (2, 2, 3)
    assert found.noisy


def test_a_failed_launch_drops_its_pair_only():
    rounds = [{"plain": [pingpong(8, 100)]}, {"plain": [pingpong(8, 10)], "a": [pingpong(8, 5)]}]
    (found,) = stats.compare(rounds, ["plain", "a", "b"])
    assert found.arm == "a"
    assert found.plain == (10,)


def test_limits_need_one_rank_and_two():
    def rate(size: int, ranks: int, *values: float) -> stats.Line:
        return {"kind": "memcpy", "bytes": size, "ranks": ranks, "gb_per_s": list(values)}

    lines = [rate(64, 1, 10, 12, 11), rate(64, 2, 20, 24, 22), rate(128, 1, 9)]
    assert stats.limits([{"plain": lines}]) == {64: stats.Limit(11, 22)}


def comparison(size: int, plain: list[float], helped: list[float]) -> Comparison:
    return Comparison(Subject("pingpong", "", size), "helped", tuple(plain), tuple(helped))


BAR = Bar("b", "pingpong", 8, 64, at_least=1.5)


def test_the_worst_covered_size_decides():
    good, bad = comparison(8, [20] * 3, [10] * 3), comparison(64, [14] * 3, [10] * 3)
    uncovered = comparison(128, [1] * 3, [10] * 3)
    verdict = stats.judge(BAR, [good, bad, uncovered])
    assert not verdict.met
    assert not verdict.within_noise
    assert verdict.worst is bad
    assert stats.judge(BAR, [good, uncovered]).met


def test_a_bar_some_pairs_meet_is_within_noise_but_not_met():
    verdict = stats.judge(BAR, [comparison(8, [14, 14, 16], [10, 10, 10])])
    assert (verdict.met, verdict.within_noise) == (False, True)


def test_a_bar_without_measurement_is_not_met():
    assert stats.judge(BAR, []) == (BAR, None, False, False)


@pytest.mark.parametrize(("helped", "met"), [(124, True), (126, False)])
def test_latency_bar_counts_added_nanoseconds(helped: float, met: bool):
    bar = Bar("latency", "latency", 8, 8, added_ns=25)
    found = Comparison(Subject("latency", "", 8), "helped", (100,) * 5, (helped,) * 5)
    assert stats.judge(bar, [found]).met is met


def test_every_bar_of_the_project_covers_a_size_the_short_set_measures():
    from manyhands_bench.cases import BAR_SIZES

    scale = {"K": 1 << 10, "M": 1 << 20}
    sizes = [int(text.rstrip("KM")) * scale.get(text[-1], 1) for text in BAR_SIZES.split(",")]
    for bar in stats.BARS:
        if bar.kind == "pingpong":
            assert any(bar.smallest <= size <= bar.largest for size in sizes), bar.name
