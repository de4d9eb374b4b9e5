# SPDX-License-Identifier: BSD-3-Clause
"""Tests LCI over several hosts (network namespaces): graph programs, deaths, slow consumers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness.making import made
from harness.selection import BUILDS
from lci_programs import GRAPH, ROOT, SOURCES, command_for
from manyhands_bench import nodes

NO_HOSTS = nodes.obstacle()
NO_LIBFABRIC = not Path("/usr/include/rdma/fabric.h").exists()
LIMIT_S = 90
pytestmark = [
    pytest.mark.skipif(NO_LIBFABRIC, reason="libfabric is not installed"),
    pytest.mark.skipif(NO_HOSTS is not None, reason=f"hosts: {NO_HOSTS}"),
]

HERE = Path(__file__).parent
PROGRAMS = ROOT / "build" / "tests" / "lci"


@pytest.fixture(scope="module")
def streams() -> Path:
    source = HERE / "streams.cpp"
    return made(
        PROGRAMS / "streams", [source, *SOURCES], lambda to: command_for(source, to), LIMIT_S
    )


@pytest.fixture(scope="module")
def graph() -> Path:
    return made(
        PROGRAMS / "graph",
        [*GRAPH.iterdir(), *SOURCES],
        lambda to: command_for(GRAPH / "main.cpp", to),
        LIMIT_S,
    )


@contextmanager
def started(
    hosts: nodes.Nodes, folder: Path, command: list[str], ranks_each: int = 1
) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts `ranks_each` ranks on each host, host by host; kills them at the end of the block."""
    ranks = []
    placed = [host for host in hosts.each for _ in range(ranks_each)]
    for rank, host in enumerate(placed):
        variables = {"MH_LCI_RANK": rank, "MH_LCI_SIZE": len(placed)}
        variables["MH_LCI_ROOT"] = folder / "root"
        environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
        ranks.append(
            subprocess.Popen(
                hosts.on(host, ["exec", *command]),
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        yield ranks
    finally:
        for process in ranks:
            process.kill()
            process.wait()


@pytest.mark.skipif("openmpi4" not in BUILDS, reason="Open MPI 4 is not installed")
def test_all_three_ways_are_right_over_two_and_four_hosts() -> None:
    """The graph program checks every vertex and fails on a wrong value."""
    compiler = str(BUILDS["openmpi4"].mpicc).replace("mpicc", "mpicxx")
    bench = ROOT / "bench" / "lci"
    flags = ["-DMH_GRAPH_MPI=1", "-DMH_GRAPH_TCP=1", f"-I{GRAPH}", f"-I{bench}"]
    program = made(
        PROGRAMS / "graph-openmpi4",
        [*GRAPH.iterdir(), bench / "tcp_exchange.hpp", *SOURCES],
        lambda to: command_for(GRAPH / "main.cpp", to, compiler, *flags),
        LIMIT_S,
    )
    command = [sys.executable, str(ROOT / "bench" / "lci" / "graph.py"), "--graph", str(program)]
    command += ["--scale", "8", "--rounds", "1", "--trials", "2"]
    command += ["--programs", "cc", "--cut", "vertices"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert run.returncode == 0, run.stdout + run.stderr
    for count in (2, 4):
        assert f"cc, RMAT of scale 8, {count} hosts" in run.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--hosts", "1"], "give at least two hosts"),
        (["--rounds", "0"], "--rounds: takes a number of at least 1"),
        (["--trials", "0"], "--trials: takes a number of at least 1"),
    ],
)
def test_the_graph_bench_refuses_what_it_cannot_measure(words: list[str], reason: str) -> None:
    command = [sys.executable, str(ROOT / "bench" / "lci" / "graph.py"), *words]
    run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert run.returncode == 2
    assert reason in run.stderr


def test_ranks_share_memory_on_a_host_and_have_a_network_between_hosts(
    tmp_path: Path, graph: Path
) -> None:
    for cut in ("edges", "vertices"):
        command = [str(graph), "cc", "--scale", "10", "--cut", cut]
        with (
            nodes.several_nodes(tmp_path, 2) as hosts,
            started(hosts, tmp_path, command, ranks_each=2) as ranks,
        ):
            printed = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0] * 4, printed
        assert " right, " in printed[0]
        assert printed[0].count(": 2 ranks, ") == 2, printed


# Each launcher with each interface by which the ranks find each other: Hydra has PMI-1 and PMI-2,
# Open MPI has PMIx.
@pytest.mark.parametrize(
    ("launcher", "root"),
    [("mpich4", ""), ("mpich4", "pmi1"), ("openmpi4", ""), ("openmpi4", "prte")],
)
def test_ranks_of_several_hosts_meet_by_their_launcher(
    tmp_path: Path, graph: Path, launcher: str, root: str
) -> None:
    if launcher not in BUILDS:
        pytest.skip(f"{launcher} is not installed")
    mpi = BUILDS[launcher]
    environment = {name: value for name, value in os.environ.items() if name != "MH_LCI_ROOT"}
    words = [str(graph), "cc", "--scale", "8"]
    if root == "pmi1":
        words = ["env", f"MH_LCI_ROOT={root}", *words]
    if root == "prte":  # only the variables of PMIx, as PRRTE sets them
        words = ["env", "-u", "OMPI_COMM_WORLD_SIZE", "-u", "OMPI_COMM_WORLD_RANK"]
        words += ["-u", "OMPI_COMM_WORLD_LOCAL_SIZE", str(graph), "cc", "--scale", "8"]
    with nodes.several_nodes(tmp_path, 2) as hosts:
        run = subprocess.run(
            [*mpi.launch_across(hosts, 4), *words],
            env={**environment, **mpi.environment()},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " right, " in run.stdout
    assert run.stdout.count(": 2 ranks, ") == 2, run.stdout


@pytest.mark.parametrize(("count", "ranks_each"), [(2, 1), (4, 1), (2, 2)])
def test_a_killed_peer_is_an_error_within_five_seconds(
    tmp_path: Path, streams: Path, count: int, ranks_each: int
) -> None:
    with (
        nodes.several_nodes(tmp_path, count) as hosts,
        started(hosts, tmp_path, [str(streams), "wait"], ranks_each) as ranks,
    ):
        for rank in ranks:
            assert rank.stdout is not None
            assert rank.stdout.readline() == "waiting\n"
        killed = time.monotonic()
        ranks[-1].send_signal(signal.SIGKILL)
        for rank in ranks[:-1]:
            assert rank.communicate(timeout=LIMIT_S)[0] == "gone\n"
        assert time.monotonic() - killed < 5
        assert [rank.wait() for rank in ranks] == [0] * (len(ranks) - 1) + [-signal.SIGKILL]


@pytest.mark.parametrize(
    "seconds",
    [pytest.param(1), pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(240)])],
)
def test_a_producer_that_is_faster_is_held_up(tmp_path: Path, streams: Path, seconds: int) -> None:
    """The memory of the queue and of the whole process stays within its limits."""
    with (
        nodes.several_nodes(tmp_path, 2) as hosts,
        started(hosts, tmp_path, [str(streams), "produce", str(seconds)]) as ranks,
    ):
        printed = [rank.communicate(timeout=seconds + LIMIT_S)[0] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0], printed
    producer, consumer = printed
    assert producer.startswith("produced ") and consumer.startswith("consumed "), printed
    assert producer.split()[1:] == consumer.split()[1:], (
        printed
    )  # the number of messages and their sum
