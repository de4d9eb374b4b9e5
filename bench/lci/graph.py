#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Graph programs over several hosts: the queue of LCI beside MPI with probing and MPI windows.

The hosts are network namespaces of this machine (root is needed), one rank on each, and the graph
is RMAT. The three ways take turns, round after round. Printed are medians: the time in rounds of
communication of the slowest rank, and the bytes of communication buffers of the host that has
most. A wrong result ends everything. The times need a quiet machine to mean anything; the bytes do
not.

With two hosts the same rounds take their turn over a plain TCP connection, each with the mean of
the bytes (tcp_stream.cpp): the limit of all three.
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

from manyhands.benchmarks import mpis, nodes  # noqa: E402

SOURCE = ROOT / "examples" / "graph" / "main.cpp"
STREAM = Path(__file__).with_name("tcp_stream.cpp")
LIBRARY = ROOT / "build" / "lib"
BACKENDS = ("lci", "probe", "rma")
PROGRAMS = ("bfs", "cc", "sssp", "pagerank", "graph500")
LIMIT_S = 300
# Open MPI 4's own choice makes no windows over TCP.
SETTINGS = {"openmpi4": {"OMPI_MCA_osc": "pt2pt"}}


@dataclass(frozen=True)
class Outcome:
    milliseconds: float
    most_bytes: int
    rounds: int
    sent: int  # bytes, by rank 0


def compiled(build: mpis.MpiBuild, target: Path) -> Path:
    compiler = build.mpicc.with_name(build.mpicc.name.replace("mpicc", "mpicxx"))
    command = [str(compiler), "-std=c++20", "-O2", "-DMH_GRAPH_MPI=1", str(SOURCE)]
    command += [f"-I{ROOT / 'include'}", f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}"]
    command += ["-lmanyhands-lci", "-lmanyhands-ult", "-o", str(target)]
    subprocess.run(command, check=True)
    return target


def run(build: mpis.MpiBuild, hosts: nodes.Nodes, command: list[str], scratch: Path) -> Outcome:
    """All ranks of one program; ends the bench unless every vertex is right."""
    root = scratch / uuid.uuid4().hex  # where LCI's processes meet
    launched = [*build.launch_across(hosts, len(hosts.each)), "env", f"MH_LCI_ROOT={root}"]
    environment = {**os.environ, **build.environment(), **SETTINGS.get(build.name, {})}
    done = subprocess.run(
        [*launched, *command], capture_output=True, text=True, timeout=LIMIT_S, env=environment
    )
    time = re.search(r": right, ([\d.]+) ms in rounds; (\d+) rounds, (\d+) bytes sent", done.stdout)
    memory = re.findall(r"^host \S+: 1 ranks, (\d+) bytes", done.stdout, re.MULTILINE)
    if done.returncode != 0 or time is None or len(memory) != len(hosts.each):
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return Outcome(
        float(time.group(1)), max(map(int, memory)), int(time.group(2)), int(time.group(3))
    )


def stream(hosts: nodes.Nodes, program: Path, like: Outcome) -> float:
    """Milliseconds of so many rounds over TCP itself."""
    words = [hosts.each[0].address, str(like.rounds), str(like.sent // like.rounds)]
    listen = hosts.on(hosts.each[0], [str(program), "listen", *words])
    connect = hosts.on(hosts.each[1], [str(program), "connect", *words])
    with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as listener:
        try:
            other = subprocess.run(
                connect, capture_output=True, text=True, timeout=LIMIT_S, check=True
            )
            output, _ = listener.communicate(timeout=LIMIT_S)
        finally:
            listener.kill()
    return max(float(text.split()[0]) for text in (output, other.stdout))


def print_table(heading: str, outcomes: dict[str, list[Outcome]]) -> None:
    time = {
        name: statistics.median(one.milliseconds for one in each) for name, each in outcomes.items()
    }
    memory = {name: max(one.most_bytes for one in each) for name, each in outcomes.items()}
    print(heading)
    for name in outcomes:
        print(
            f"  {name:6} {time[name]:12,.3f} ms, lci is {time[name] / time['lci']:6.2f} as fast;"
            f" {memory[name]:14,} bytes a host, {memory[name] / memory['lci']:8.2f} of lci's",
            flush=True,
        )


def measure(
    build: mpis.MpiBuild,
    hosts: nodes.Nodes,
    command: list[str],
    rounds: int,
    tcp_stream: Path,
    scratch: Path,
) -> tuple[dict[str, list[Outcome]], list[float]]:
    """All ways in turn, and the times of TCP itself: none with more than two hosts."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in BACKENDS}
    limits: list[float] = []
    for _ in range(rounds):
        for name in BACKENDS:
            outcomes[name].append(run(build, hosts, [*command, name], scratch))
        if len(hosts.each) == 2:
            limits.append(stream(hosts, tcp_stream, outcomes["lci"][-1]))
    return outcomes, limits


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="example: bench/lci/graph.py --hosts 2 4 --scale 18 --rounds 5",
    )
    builds = mpis.find_builds(ROOT)
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--scale", type=int, default=18, help="2 to this many vertices")
    parser.add_argument(
        "--programs", nargs="+", choices=PROGRAMS, default=["bfs", "cc", "pagerank"]
    )
    parser.add_argument("--cut", choices=("edges", "vertices"), default="edges")
    parser.add_argument("--rounds", type=int, default=5)
    # MPICH 4's MPI_Finalize may never end over UCX's TCP.
    parser.add_argument("--mpi", choices=builds, default="openmpi4")
    parser.add_argument("--graph", type=Path, help="the program, compiled with this MPI")
    options = parser.parse_args()
    if options.mpi not in builds:
        sys.exit(f"{options.mpi} is not installed")
    if (why := nodes.obstacle()) is not None:
        sys.exit(f"no hosts: {why}")
    with tempfile.TemporaryDirectory(prefix="mh-graph-") as folder:
        scratch = Path(folder)
        build = builds[options.mpi]
        graph = options.graph or compiled(build, scratch / "graph")
        tcp_stream = scratch / "tcp-stream"
        subprocess.run(["g++", "-std=c++20", "-O2", STREAM, "-o", tcp_stream], check=True)
        for count in options.hosts:
            with nodes.several_nodes(scratch, count) as hosts:
                for program in options.programs:
                    words = [str(graph), program, "--scale", str(options.scale)]
                    words += ["--cut", options.cut, "--backend"]
                    outcomes, limits = measure(
                        build, hosts, words, options.rounds, tcp_stream, scratch
                    )
                    heading = f"{program}, RMAT of scale {options.scale}, {count} hosts"
                    print_table(heading, outcomes)
                    if limits:
                        print(f"  {'tcp':6} {statistics.median(limits):12,.3f} ms: the limit")


if __name__ == "__main__":
    main()
