# SPDX-License-Identifier: BSD-3-Clause
"""Programs that continue after errors see the same error classes, statuses and buffers, plain and
helped.

Each rank writes a trace (errors.h). The traces of a helped run must have the same lines in each
round as the traces of the plain run. A failure shows the first round that differs and the command
to repeat it. `--fuzz-rounds` and `--fuzz-seed` make a longer search, in batches of fifty rounds.

`--slow` tests every shape in every way, under all libraries. Under MPICH 5 the search finds
programs that hang (docs/decisions/rendezvous/error-handlers.md).
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, Run, compiled, run, with_heap
from harness.making import found_once
from manyhands_bench.mpis import MpiBuild

HERE = Path(__file__).parent
SOURCES = [*sorted(HERE.glob("*.c")), HERE.parent / "layout.c"]
BATCH = 50  # number of rounds of a run
LIMIT_S = 600
HANDLER = " COMPLETE: handler: "
ROUND = re.compile(r"^round (\d+) ")

# For each name of a test case, the number of ranks, the seed and the number of rounds.
SHAPES = {"2 ranks": (2, 1, 30), "3 ranks": (3, 2, 10), "4 ranks": (4, 3, 6)}
HELPED_FROM_4K = {"MH_HELP_THRESHOLD": "4K", "MH_MAPPED_HELP_THRESHOLD": "4K"}
# Settings that decide how messages travel. In each of them, errors() below also sets MH_CORES, so
# that third ranks help on any machine.
WAYS = {
    "by default": {},
    "all by rendezvous": {"MH_THRESHOLD": "64K", "MH_EXCHANGE_THRESHOLD": "64K", **HELPED_FROM_4K},
    "short ones by rendezvous": {
        "MH_THRESHOLD": "4K",
        "MH_EXCHANGE_THRESHOLD": "4K",
        **HELPED_FROM_4K,
    },
    "cells": {"MH_MEMORY": "cells", "MH_THRESHOLD": "4K", "MH_EXCHANGE_THRESHOLD": "4K"},
    "two nodes": {"MH_FAKE_NODES": "2", "MH_THRESHOLD": "4K", "MH_EXCHANGE_THRESHOLD": "4K"},
    "shared heap": {
        "MH_HEAP": "on",
        "MH_THRESHOLD": "4K",
        "MH_EXCHANGE_THRESHOLD": "4K",
        "MH_MAPPED_THRESHOLD": "4K",
        **HELPED_FROM_4K,
    },
    "shared heap alone": {
        "MH_HEAP": "on",
        "MH_MEMORY": "mapped",
        "MH_THRESHOLD": "4K",
        "MH_EXCHANGE_THRESHOLD": "4K",
        "MH_MAPPED_THRESHOLD": "4K",
        **HELPED_FROM_4K,
    },
}

Request = pytest.FixtureRequest
Trace = dict[int, list[str]]  # lines by round


def read_trace(path: Path) -> Trace:
    rounds: Trace = defaultdict(list)
    if not path.exists():
        return rounds
    for line in path.read_text(errors="replace").splitlines():
        if match := ROUND.match(line):
            rounds[int(match[1])].append(line)
    return rounds


def errors(
    mpi: MpiBuild, arm: Arm, ranks: int, words: list[str], env: dict[str, str], folder: Path
) -> tuple[Run, list[Trace]]:
    folder.mkdir(exist_ok=True)
    program = compiled(mpi, "errors", SOURCES)
    trace = folder / "trace"
    # Third ranks help only if each rank has a core, so MH_CORES states at least as many cores as
    # ranks.
    settings = {"MH_CORES": str(max(ranks, len(os.sched_getaffinity(0)))), **env}
    command = [str(program), *words, "--timeout", str(LIMIT_S // 10), "--trace", str(trace)]
    done = run(mpi, arm, ranks, command, settings, timeout_s=LIMIT_S)
    return done, [read_trace(folder / f"trace.{rank}") for rank in range(ranks)]


def counted(lines: list[str]) -> Counter[str]:
    """Counts each line. Lines of handlers count once: a call calls the handler once for all of its
    failed requests, and timing decides which requests fail in a call."""
    times = Counter(lines)
    return Counter({line: 1 if HANDLER in line else times[line] for line in times})


def differences(plain: Trace, helped: Trace) -> str | None:
    """Returns the first round whose lines differ, as text, or None."""
    for number in sorted({*plain, *helped}):
        ours, theirs = counted(helped[number]), counted(plain[number])
        if ours == theirs:
            continue
        missing = [f"  plain:  {line}" for line in (theirs - ours).elements()]
        added = [f"  helped: {line}" for line in (ours - theirs).elements()]
        return "\n".join([f"round {number}:", *missing[:12], *added[:12]])
    return None


def seen_plain(mpi: MpiBuild, ranks: int, words: list[str], shared: Path) -> list[Trace]:
    """Returns the traces of the plain run, which is made once for all ways."""
    folder = shared / " ".join(["errors", mpi.name, str(ranks), *words])

    def find() -> str:
        plain, _ = errors(mpi, Arm("plain"), ranks, words, {}, folder)
        return "" if plain.code == 0 else plain.told()

    failed = found_once(folder.with_suffix(".failed"), find)
    assert not failed, f"the plain library fails\n{failed}"
    return [read_trace(folder / f"trace.{rank}") for rank in range(ranks)]


def compare(
    mpi: MpiBuild, helped: Arm, ranks: int, words: list[str], way: str, request: Request
) -> None:
    expected = seen_plain(mpi, ranks, words, request.getfixturevalue("shared_folder"))
    arm = with_heap(helped) if "MH_HEAP" in WAYS[way] else helped
    folder = request.getfixturevalue("tmp_path")
    done, seen = errors(mpi, arm, ranks, words, WAYS[way], folder)
    told = []
    for rank in range(ranks):
        if found := differences(expected[rank], seen[rank]):
            told += [f"rank {rank}, {found}"]
    assert not told, "\n".join([*told, done.told()])
    assert done.code == 0, done.told()
    done.expect_clean()


def batches(request: Request, seed: int, rounds: int) -> list[list[str]]:
    """Returns the arguments of each run."""
    asked_seed, asked = (request.config.getoption(key) for key in ("--fuzz-seed", "--fuzz-rounds"))
    seed = asked_seed if asked_seed is not None else seed
    rounds = asked if asked is not None else rounds
    return [
        [
            "--seed",
            str(seed),
            "--first-round",
            str(first),
            "--rounds",
            str(min(BATCH, rounds - first)),
        ]
        for first in range(0, rounds, BATCH)
    ]


def see_the_same(mpi: MpiBuild, helped: Arm, shape: str, way: str, request: Request) -> None:
    ranks, seed, rounds = SHAPES[shape]
    for words in batches(request, seed, rounds):
        compare(mpi, helped, ranks, words, way, request)


@pytest.mark.timeout(0)
@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("shape", SHAPES)
def test_errors_are_seen_as_without_help(
    mpi: MpiBuild, helped: Arm, shape: str, request: Request
) -> None:
    see_the_same(mpi, helped, shape, "by default", request)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("shape", SHAPES)
def test_errors_are_seen_under_every_library(
    mpi: MpiBuild, helped: Arm, shape: str, request: Request
) -> None:
    see_the_same(mpi, helped, shape, "by default", request)


@pytest.mark.timeout(0)
@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("way", [way for way in WAYS if WAYS[way]])
def test_errors_are_seen_whatever_way_messages_go(
    mpi: MpiBuild, helped: Arm, way: str, request: Request
) -> None:
    ranks = 4 if "MH_FAKE_NODES" in WAYS[way] else 2
    for words in batches(request, 9, 6 if ranks > 2 else 12):
        compare(mpi, helped, ranks, words, way, request)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("way", [way for way in WAYS if WAYS[way]])
@pytest.mark.parametrize("shape", SHAPES)
def test_errors_are_seen_in_every_shape_and_way(
    mpi: MpiBuild, helped: Arm, shape: str, way: str, request: Request
) -> None:
    see_the_same(mpi, helped, shape, way, request)
