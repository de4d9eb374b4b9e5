#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Graph programs over several hosts: the queue of LCI beside MPI with probing and MPI windows.

The hosts are network namespaces of this machine (root is needed), one rank on each, and the graph
is RMAT. The back ends of the program take turns, trial after trial, in one launch, so a change of
the machine's speed affects all back ends. Each of --rounds launches gives a ratio of times. The
output has medians over the launches of the time in rounds of communication, which all ranks begin
together, and the bytes of communication buffers of the host with the most. A wrong result ends the
benchmark. The times need a quiet machine; the bytes do not.

With two hosts, a back end over a plain TCP connection takes turns, too (tcp_exchange.hpp).
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cli"))

from manyhands_bench import mpis, nodes  # noqa: E402
from manyhands_bench.arguments import at_least_one  # noqa: E402

SOURCE = ROOT / "examples" / "graph" / "main.cpp"
LIBRARY = ROOT / "build" / "lib"
BACKENDS = ("lci", "probe", "rma")
PLAIN_TCP = "tcp"  # back end for exactly two hosts
PROGRAMS = ("bfs", "cc", "sssp", "pagerank", "graph500")
LIMIT_S = 300
# Settings by MPI library. The one-sided component that Open MPI 4 chooses by default cannot create
# windows over TCP, which the back end `rma` needs.
SETTINGS = {"openmpi4": {"OMPI_MCA_osc": "pt2pt"}}


@dataclass(frozen=True)
class Outcome:
    milliseconds: float
    most_bytes: int


def compiled(build: mpis.MpiBuild, target: Path) -> Path:
    compiler = build.mpicc.with_name(build.mpicc.name.replace("mpicc", "mpicxx"))
    command = [str(compiler), "-std=c++20", "-O2", "-DMH_GRAPH_MPI=1", "-DMH_GRAPH_TCP=1"]
    folders = (SOURCE.parent, Path(__file__).parent, ROOT / "include")
    command += [str(SOURCE), *(f"-I{folder}" for folder in folders)]
    command += [f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}"]
    command += ["-lmanyhands-lci", "-lmanyhands-ult", "-o", str(target)]
    subprocess.run(command, check=True)
    return target


WAY = re.compile(
    r"^\w+ (?P<way>\w+) \d+ ranks, .*: right, (?P<time>[\d.]+) ms in rounds;.*\n"
    r"(?P<hosts>(?:host .*\n)+)",
    re.MULTILINE,
)


def run(
    build: mpis.MpiBuild, hosts: nodes.Nodes, command: list[str], ways: list[str], scratch: Path
) -> dict[str, Outcome]:
    """Runs all back ends in one launch. Ends the benchmark unless every vertex is right."""
    root = scratch / uuid.uuid4().hex  # the path at which the ranks of LCI meet
    launched = [*build.launch_across(hosts, len(hosts.each)), "env", f"MH_LCI_ROOT={root}"]
    command = [*command, "--backend", ",".join(ways)]
    environment = {**os.environ, **build.environment(), **SETTINGS.get(build.name, {})}
    done = subprocess.run(
        [*launched, *command], capture_output=True, text=True, timeout=LIMIT_S, env=environment
    )
    outcomes = {}
    for way in WAY.finditer(done.stdout):
        memory = re.findall(r"^host \S+: 1 ranks, (\d+) bytes", way["hosts"], re.MULTILINE)
        if len(memory) == len(hosts.each):
            outcomes[way["way"]] = Outcome(float(way["time"]), max(map(int, memory)))
    if done.returncode != 0 or list(outcomes) != ways:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return outcomes


def print_table(heading: str, outcomes: dict[str, list[Outcome]]) -> None:
    lci = outcomes["lci"]
    most = max(one.most_bytes for one in lci)
    print(heading)
    for name, each in outcomes.items():
        time = statistics.median(one.milliseconds for one in each)
        ratios = [one.milliseconds / ours.milliseconds for one, ours in zip(each, lci, strict=True)]
        memory = max(one.most_bytes for one in each)
        print(
            f"  {name:6} {time:10,.3f} ms;"
            f" lci is {statistics.median(ratios):5.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
            f" as fast; {memory:12,} bytes a host, {memory / most:6.2f} of lci's",
            flush=True,
        )


def measure(
    build: mpis.MpiBuild, hosts: nodes.Nodes, command: list[str], rounds: int, scratch: Path
) -> dict[str, list[Outcome]]:
    ways = [*BACKENDS, PLAIN_TCP] if len(hosts.each) == 2 else list(BACKENDS)
    launches = [run(build, hosts, command, ways, scratch) for _ in range(rounds)]
    return {way: [launch[way] for launch in launches] for way in ways}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="example: bench/lci/graph.py --hosts 2 4 --scale 18 --rounds 5",
    )
    builds = mpis.find_builds(ROOT)
    parser.add_argument(
        "--hosts", type=int, nargs="+", default=[2, 4], help="numbers of hosts, from 2 up"
    )
    parser.add_argument(
        "--scale", type=int, default=18, help="the graph has 2 to the power of this number vertices"
    )
    parser.add_argument(
        "--programs", nargs="+", choices=PROGRAMS, default=["bfs", "cc", "pagerank"]
    )
    parser.add_argument("--cut", choices=("edges", "vertices"), default="edges")
    parser.add_argument(
        "--rounds", type=at_least_one, default=5, help="number of launches; each runs all ways"
    )
    parser.add_argument(
        "--trials", type=at_least_one, default=9, help="number of runs of each way in a launch"
    )
    # The default is Open MPI, because MPICH 4's MPI_Finalize may never end over TCP of UCX.
    parser.add_argument("--mpi", choices=builds, default="openmpi4")
    parser.add_argument("--graph", type=Path, help="the program, compiled with this MPI")
    options = parser.parse_args()
    if min(options.hosts) < 2:
        parser.error("give at least two hosts")
    if options.mpi not in builds:
        sys.exit(f"{options.mpi} is not installed")
    if (why := nodes.obstacle()) is not None:
        sys.exit(f"no hosts: {why}")
    with tempfile.TemporaryDirectory(prefix="mh-graph-") as folder:
        scratch = Path(folder)
        build = builds[options.mpi]
        graph = options.graph or compiled(build, scratch / "graph")
        for count in options.hosts:
            with nodes.several_nodes(scratch, count) as hosts:
                for program in options.programs:
                    words = [str(graph), program, "--scale", str(options.scale)]
                    words += ["--together", "--trials", str(options.trials)]
                    words += ["--cut", options.cut]
                    outcomes = measure(build, hosts, words, options.rounds, scratch)
                    print_table(
                        f"{program}, RMAT of scale {options.scale}, {count} hosts", outcomes
                    )


if __name__ == "__main__":
    main()
