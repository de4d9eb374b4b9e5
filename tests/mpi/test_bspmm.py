# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the block-sparse product of examples/bspmm is exact, plain and helped, on one node and
on two. A lost accumulate or put shows as a wrong tile.
"""

from __future__ import annotations

import json

import pytest
from harness.launch import QUICK, ROOT, Arm, compiled, run
from manyhands_bench.mpis import MpiBuild

SOURCES = sorted((ROOT / "examples" / "bspmm").glob("*.c"))


def check(mpi: MpiBuild, arm: Arm, ranks: int, words: str, env: dict[str, str]) -> None:
    program = compiled(mpi, "bspmm", SOURCES)
    done = run(mpi, arm, ranks, [str(program), *words.split()], env, 60)
    assert done.code == 0, done.told()
    done.expect_clean()
    result = json.loads(done.out.splitlines()[0])
    assert result["checked"] and result["wrong"] == 0, done.told()


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("words", ["--tiles 5 --tile 30 --density 0.5", "--tiles 3 --tile 200"])
def test_the_product_is_exact_with_help(mpi: MpiBuild, helped: Arm, words: str) -> None:
    check(mpi, helped, 3, words, {})


@pytest.mark.under(*QUICK)
def test_the_product_is_exact_without_help(mpi: MpiBuild, plain: Arm) -> None:
    check(mpi, plain, 2, "--tiles 5 --tile 30 --density 0.5", {})


@pytest.mark.under("mpich4")
def test_the_product_is_exact_on_two_nodes(mpi: MpiBuild, helped: Arm) -> None:
    check(mpi, helped, 2, "--tiles 5 --tile 30 --density 0.5", {"MH_FAKE_NODES": "2"})


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("words", ["--tiles 5 --tile 30 --density 0.5", "--tiles 3 --tile 200"])
def test_the_product_is_exact_in_windows_over_two_nodes(
    mpi: MpiBuild, helped: Arm, words: str
) -> None:
    check(mpi, helped, 4, words, {"MH_FAKE_NODES": "2", "MH_WINDOWS": "all"})
