# SPDX-License-Identifier: BSD-3-Clause
"""Runs the fuzzer under every MPI build, plain and helped: no wrong byte, and the same hash.

Every run checks itself and prints a hash over all its observations. The hash must be the same for
plain and helped runs. `--fuzz-seed` and `--fuzz-rounds` make a longer search.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, Run, compiled, run, with_heap
from harness.making import found_once
from manyhands_bench.mpis import MpiBuild

SOURCES = sorted(Path(__file__).parent.glob("*.c"))
LINE = re.compile(r"^fuzz: ok .* messages (\d+) bytes (\d+) hash ([0-9a-f]{16})$", re.MULTILINE)
LIMIT_S = 100

# For each name of a test case, the number of ranks and the arguments of the fuzzer.
SHAPES = {
    "2 ranks": (2, "--seed 1 --rounds 20"),
    "3 ranks": (3, "--seed 3 --rounds 6"),
    "5 ranks": (5, "--seed 5 --rounds 2"),
    "threads": (2, "--seed 6 --rounds 2 --threads 3"),
    "crowds": (2, "--seed 7 --rounds 6 --crowd 4"),
}
# The shape (ranks and arguments) of the runs for each way to reach memory on each machine. Each MPI
# library has sixteen runs of this shape, so it has half as many rounds as "2 ranks" in SHAPES.
WAYS_SHAPE = (2, "--seed 1 --rounds 10")
# The number of ranks and the arguments of runs with the shared heap, under every MPI library. Most
# large buffers of the fuzzer are then in the heap.
HEAP_SHAPES = {
    "2 ranks": WAYS_SHAPE,
    "threads": (2, "--seed 6 --rounds 1 --threads 3"),
}
# The number of ranks and the arguments of runs with MH_FAKE_NODES=2, helped, under Debian's MPI
# libraries. Messages between nodes take other paths in Manyhands than messages within a node.
NODES_SHAPES = {
    "4 ranks": (4, "--seed 21 --rounds 4"),
    "4 ranks, threads": (4, "--seed 21 --rounds 1 --threads 3"),
}
# The arguments of runs in which each rank counts as having a core, by number of ranks. Third ranks
# help in such runs only. If the ranks share cores, most messages end before a third rank runs.
HELPING_SHAPES = {
    3: "--seed 43 --rounds 6",
    4: "--seed 44 --rounds 4",
    5: "--seed 45 --rounds 3",
    6: "--seed 46 --rounds 2",
}
LONG_SHAPES = {
    "2 ranks, small pieces": (2, "--seed 2 --rounds 400 --max-bytes 70000"),
    "2 ranks, long": (2, "--seed 11 --rounds 400"),
    "4 ranks, long": (4, "--seed 12 --rounds 60"),
    "6 ranks, long": (6, "--seed 13 --rounds 30"),
    "threads, long": (3, "--seed 14 --rounds 30 --threads 4"),
    "crowds, long": (3, "--seed 15 --rounds 60 --crowd 5"),
}
# Values of MH_MEMORY, which restricts the ways to reach memory. A way is the same under every MPI,
# so the short set of tests runs them only under the builds with quick launchers. With "heap",
# buffers outside of the shared heap are reached in the default way; with "mapped", by cells.
WAYS = ("none", "heap", "mapped", "cma", "cells")
# Lets hwloc report a machine with a tiny last-level cache. All messages that Manyhands packs then
# take the path for messages larger than that cache.
NO_CACHE = {"HWLOC_SYNTHETIC": "numa:1 l3:1(size=1024) core:2 pu:1"}
BY_DEFAULT = {
    "MH_THRESHOLD": "64K",
    "MH_EXCHANGE_THRESHOLD": "8M",
    "MH_HELP_THRESHOLD": "4M",
    "MH_MAPPED_HELP_THRESHOLD": "1M",
}


def words(request: pytest.FixtureRequest, arguments: str) -> list[str]:
    seed, rounds = (request.config.getoption(key) for key in ("--fuzz-seed", "--fuzz-rounds"))
    extra = ["--seed", str(seed)] if seed is not None else []
    extra += ["--rounds", str(rounds)] if rounds is not None else []
    return [*arguments.split(), *extra]


def fuzz(
    mpi: MpiBuild,
    arm: Arm,
    ranks: int,
    arguments: list[str],
    limit_s: float,
    memory: str = "auto",
    nodes: int = 1,
    machine: dict[str, str] | None = None,
) -> Run:
    program = compiled(mpi, "fuzz", SOURCES)
    limit = ["--timeout", str(int(limit_s * 0.6))]
    # Nearly all messages of the fuzzer are part of an exchange, and would be eager under the
    # default MH_EXCHANGE_THRESHOLD. The thresholds below make them rendezvous.
    reached = "auto" if memory == "heap" else memory
    env = {
        "MH_THRESHOLD": "64K",
        "MH_EXCHANGE_THRESHOLD": "64K",
        "MH_MAPPED_THRESHOLD": "4K",
        "MH_HELP_THRESHOLD": "4K",
        "MH_MAPPED_HELP_THRESHOLD": "4K",
    }
    env |= {"MH_MEMORY": reached, "MH_FAKE_NODES": str(nodes), **(machine or {})}
    if memory in ("heap", "mapped"):
        arm = with_heap(arm)
    done = run(mpi, arm, ranks, [str(program), *arguments, *limit], env, timeout_s=limit_s)
    if done.skipped():
        pytest.skip(done.skipped())
    assert done.code == 0, done.told()
    assert LINE.search(done.out), done.told()
    done.expect_clean()
    return done


def observed(done: Run) -> tuple[str, ...]:
    match = LINE.search(done.out)
    assert match is not None
    return match.groups()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_plain_mpi_passes(
    mpi: MpiBuild, plain: Arm, shape: str, request: pytest.FixtureRequest
) -> None:
    ranks, arguments = SHAPES[shape]
    fuzz(mpi, plain, ranks, words(request, arguments), LIMIT_S)


@pytest.mark.parametrize("shape", SHAPES)
def test_helped_sees_the_same(
    mpi: MpiBuild, helped: Arm, shape: str, request: pytest.FixtureRequest
) -> None:
    ranks, arguments = SHAPES[shape]
    done = fuzz(mpi, helped, ranks, words(request, arguments), LIMIT_S)
    assert observed(done) == seen_plain(mpi, SHAPES[shape], request), done.told()


def seen_plain(
    mpi: MpiBuild, shape: tuple[int, str], request: pytest.FixtureRequest
) -> tuple[str, ...]:
    """Returns the observations under plain MPI, computed once for all parallel tests."""
    ranks, arguments = shape

    def find() -> str:
        done = fuzz(mpi, Arm("plain"), ranks, words(request, arguments), LIMIT_S)
        return " ".join(observed(done))

    folder = request.getfixturevalue("shared_folder")
    return tuple(found_once(folder / f"fuzz {mpi.name} {ranks} {arguments}", find).split())


# Machines and settings for the ways to reach memory. On "this" machine the default way and the heap
# are left out, because test_helped_sees_the_same and test_with_a_shared_heap_the_same_is_seen cover
# them.
MACHINES = {"this": {}, "default threshold": BY_DEFAULT, "no cache": NO_CACHE}
MEMORIES = [
    pytest.param(machine, memory, id=f"{name}-{memory}")
    for name, machine in MACHINES.items()
    for memory in ("auto", *WAYS)
    if machine or memory not in ("auto", "heap")
]


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize(("machine", "memory"), MEMORIES)
def test_other_ways_to_memory_see_the_same(
    mpi: MpiBuild,
    helped: Arm,
    memory: str,
    machine: dict[str, str],
    request: pytest.FixtureRequest,
) -> None:
    ranks, arguments = WAYS_SHAPE
    done = fuzz(mpi, helped, ranks, words(request, arguments), LIMIT_S, memory, machine=machine)
    assert observed(done) == seen_plain(mpi, WAYS_SHAPE, request), done.told()


@pytest.mark.parametrize("shape", HEAP_SHAPES)
def test_with_a_shared_heap_the_same_is_seen(
    mpi: MpiBuild, helped: Arm, shape: str, request: pytest.FixtureRequest
) -> None:
    ranks, arguments = HEAP_SHAPES[shape]
    done = fuzz(mpi, helped, ranks, words(request, arguments), LIMIT_S, "heap")
    assert observed(done) == seen_plain(mpi, HEAP_SHAPES[shape], request), done.told()


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("shape", NODES_SHAPES)
def test_two_nodes_see_the_same(
    mpi: MpiBuild, helped: Arm, shape: str, request: pytest.FixtureRequest
) -> None:
    ranks, arguments = NODES_SHAPES[shape]
    plain = fuzz(mpi, Arm("plain"), ranks, words(request, arguments), LIMIT_S)
    done = fuzz(mpi, helped, ranks, words(request, arguments), LIMIT_S, nodes=2)
    assert observed(done) == observed(plain), done.told()


@pytest.mark.under(*QUICK)
@pytest.mark.parametrize("ranks", HELPING_SHAPES)
def test_with_third_ranks_that_help_the_same_is_seen(
    mpi: MpiBuild, helped: Arm, ranks: int, request: pytest.FixtureRequest
) -> None:
    shape = ranks, HELPING_SHAPES[ranks]
    cores = {"MH_CORES": str(ranks)}
    done = fuzz(mpi, helped, ranks, words(request, shape[1]), LIMIT_S, machine=cores)
    assert observed(done) == seen_plain(mpi, shape, request), done.told()
    assert done.summary is not None
    if len(os.sched_getaffinity(0)) >= ranks:
        assert done.summary["total"]["others_bytes"] > 0, f"no third rank helped\n{done.told()}"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", LONG_SHAPES)
def test_helped_sees_the_same_for_long(
    mpi: MpiBuild, helped: Arm, shape: str, request: pytest.FixtureRequest
) -> None:
    ranks, arguments = LONG_SHAPES[shape]
    plain = fuzz(mpi, Arm("plain"), ranks, words(request, arguments), 800)
    for memory in ("auto", *WAYS):
        done = fuzz(mpi, helped, ranks, words(request, arguments), 800, memory)
        assert observed(done) == observed(plain), f"MH_MEMORY={memory}\n{done.told()}"


def test_a_wrong_byte_is_found(mpi: MpiBuild, tmp_path: Path) -> None:
    """The fuzzer reports a changed byte of a large message."""
    spoiler = compiled_spoiler(mpi, tmp_path)
    program = compiled(mpi, "fuzz", SOURCES)
    arm = Arm("spoilt", spoiler)
    for _ in range(5):  # Hydra may lose the last output of a job that aborts
        done = run(mpi, arm, 2, [str(program), "--seed", "1", "--rounds", "4"], timeout_s=LIMIT_S)
        assert done.code not in (0, None), done.told()
        if done.err.strip():
            break
    assert "fuzz: FAILED: 1 wrong bytes" in done.err, done.told()
    assert "fuzz: repeat with --seed 1" in done.err, done.told()


def compiled_spoiler(mpi: MpiBuild, folder: Path) -> Path:
    import subprocess

    source = folder / "spoiler.c"
    source.write_text(SPOILER)
    library = folder / "spoiler.so"
    command = [str(mpi.mpicc), "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True, env=dict(os.environ))
    return library


SPOILER = """
#include <mpi.h>
int MPI_Recv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  MPI_Status own;
  if (status != MPI_STATUS_IGNORE) own = *status;
  int code = PMPI_Recv(data, count, type, source, tag, comm, &own), got = 0;
  PMPI_Get_count(&own, type, &got);
  if (got > 100000 && data != MPI_BOTTOM) ((char*)data)[77777] ^= 1;
  if (status != MPI_STATUS_IGNORE) *status = own;
  return code;
}
"""
