# SPDX-License-Identifier: BSD-3-Clause
"""Tests the cases of whole programs: their results as lines, and which nodes their ranks get."""

from __future__ import annotations

import json

import pytest
from manyhands_bench import examples, host, launch, runs, stats
from manyhands_bench.cases import select
from manyhands_bench.program_cases import PROGRAM_CASES
from manyhands_bench.programs import PROGRAMS

PRODUCT = {
    "ranks": 4,
    "seconds": 0.5,
    "counter": 0.01,
    "get": 0.1,
    "multiply": 0.2,
    "accumulate": 0.15,
    "checked": False,
    "wrong": 0,
}
RANKS = [{"rank": 0, "mpi_s": 0.2, "wait_s": 0.1}, {"rank": 1, "mpi_s": 0.3, "wait_s": 0.25}]
STENCIL = {"program": "stencil", "ranks": 2, "seconds": 0.75, "times": RANKS}


def seconds(output: str) -> dict[str, float]:
    assert examples.is_one(output)
    _, *lines = examples.lines(output)
    return {subject.name: ns / 1e9 for subject, ns in stats.estimates(lines).items()}


def test_a_product_has_its_seconds_and_those_of_its_parts() -> None:
    found = seconds(json.dumps(PRODUCT))
    assert found == pytest.approx(
        {"all": 0.5, "counter": 0.01, "get": 0.1, "multiply": 0.2, "accumulate": 0.15}
    )


def test_a_stencil_has_the_waits_of_each_rank() -> None:
    found = seconds(json.dumps(STENCIL, indent=2))
    waits = {"waits of rank 0": 0.1, "waits of rank 1": 0.25}
    assert found == pytest.approx({"all": 0.75, "in MPI": 0.3, **waits})


def test_the_configuration_has_the_number_of_ranks() -> None:
    for output in (json.dumps(PRODUCT), json.dumps(STENCIL, indent=2)):
        config = examples.lines(output)[0]
        assert config["kind"] == "config" and config["ranks"] in (2, 4)


def test_every_node_of_a_case_has_two_ranks() -> None:
    for case in PROGRAM_CASES:
        assert case.ranks(host.describe()) == 2 * case.hosts
        assert case.program in PROGRAMS
    assert [case.hosts for case in select(["bspmm", "bspmm-2-nodes", "bspmm-4-nodes"], False)] == [
        1,
        2,
        4,
    ]


def test_a_part_that_took_no_time_is_no_other_result() -> None:
    no_wait = {**STENCIL, "times": [{**RANKS[0], "wait_s": 0}, RANKS[1]]}
    lines, others = (examples.lines(json.dumps(found, indent=2)) for found in (STENCIL, no_wait))
    assert len(lines) != len(others)
    runs.check_same({"plain": lines}, others)
    named = [{"kind": "loop", "hash": "a"}]
    with pytest.raises(launch.LaunchError, match="differs"):
        runs.check_same({"plain": named}, [{"kind": "loop", "hash": "b"}])
