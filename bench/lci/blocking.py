#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Graph500's search, Unbalanced Tree Search and conjugate gradients by tasks in blocking calls.

Two ranks (examples/blocking.hpp): light tasks over LCI, light tasks over MPI with Manyhands, and
threads over MPI, plain and with Manyhands. In the two searches a rank has one or two processing
tasks, and further tasks that wait for messages; in conjugate gradients 16 tasks. The references do
without: rounds of MPI with probes, uts-messages, and conjugate gradients with one thread a rank.
The arms take turns, round after round. The output has the median and the range of the rates. The
numbers need a quiet machine.

    bench/lci/blocking.py --rounds 5         # the dissertation's figures 2.14, 2.15, 5.19, 5.20
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cli"))

import in_group  # noqa: E402
from manyhands_bench.arguments import at_least_one  # noqa: E402
from manyhands_bench.mpis import MpiBuild, Placement, find_builds  # noqa: E402

LIBRARY = ROOT / "build" / "lib"
LIMIT_S = 60
RANKS = 2


@dataclass
class Arm:
    name: str
    command: list[str]
    environment: dict[str, str]
    rates: list[float] = field(default_factory=list)
    failed: bool = False


@dataclass(frozen=True)
class Case:
    source: str  # below examples/
    words: list[str]
    unit: str
    workers: tuple[str, ...] = ("1", "2")


def compiled(build: MpiBuild, source: str, folder: Path) -> str:
    program = folder / f"{Path(source).stem}-{build.name}"
    compiler = build.mpicc.with_name(build.mpicc.name.replace("mpicc", "mpicxx"))
    command = [compiler, "-std=c++20", "-O3", "-DMH_BLOCKING_MPI=1", "-DMH_GRAPH_MPI=1"]
    command += ["-DMPICH_SKIP_MPICXX", "-DOMPI_SKIP_MPICXX", ROOT / "examples" / source]
    command += [f"-I{ROOT / 'include'}", f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}"]
    command += ["-lmanyhands-lci", "-lmanyhands-ult", "-lcrypto", "-pthread", "-o", program]
    subprocess.run(command, check=True)
    return str(program)


def cases(scale: int, roots: int, tree: str) -> dict[str, Case]:
    graph = [str(scale), str(roots)]
    return {
        "search": Case("graph/receiving_tasks.cpp", graph, "millions of edges a second"),
        "uts": Case("uts/uts_tasks.cpp", [tree], "millions of nodes a second"),
        "gradients": Case(
            "gradients/gradients.cpp", ["16", "64", "64", "32"], "iterations a second", ("1",)
        ),
    }


def arms_of(build: MpiBuild, program: str, case: Case, with_lci: bool) -> list[Arm]:
    """The arms of a case that begin with this MPI library's launcher."""
    launch = build.launch(RANKS, Placement.FREE)
    helped = ["env", f"LD_PRELOAD={LIBRARY / 'libmanyhands.so'}"]
    made = []
    for workers in case.workers:
        ways: list[tuple[str, list[str], str]] = [
            ("mpi-tasks", helped, f"{build.name}, light tasks"),
            ("mpi-threads", [], f"{build.name}, threads, plain"),
            ("mpi-threads", helped, f"{build.name}, threads, Manyhands"),
        ]
        if with_lci:
            ways.insert(0, ("lci", [], "lci, light tasks"))
        for way, preload, name in ways:
            command = [*launch, *preload, program, way, workers, *case.words]
            made.append(Arm(f"{name}, {workers}", command, build.environment()))
    return made


def reference(build: MpiBuild, name: str, case: Case, program: str, folder: Path) -> Arm:
    """The arm without tasks that wait in blocking calls."""
    launch = build.launch(RANKS, Placement.FREE)
    if name == "search":
        rounds = [*launch, compiled(build, "graph/main.cpp", folder), "graph500", "--kronecker"]
        rounds += ["--backend", "probe", "--scale", case.words[0], "--roots", case.words[1]]
        return Arm(f"{build.name}, rounds with probes", rounds, build.environment())
    if name == "uts":
        messages = compiled(build, "uts/uts_messages.cpp", folder)
        return Arm("lci, uts-messages", [*launch, messages, *case.words], build.environment())
    one = [*launch, program, "mpi-threads", "1", "1", *case.words[1:]]
    return Arm(f"{build.name}, one thread", one, build.environment())


def arms(name: str, case: Case, folder: Path) -> list[Arm]:
    made: list[Arm] = []
    for build in find_builds(ROOT).values():
        if build.name not in ("mpich4", "openmpi4"):
            continue
        program = compiled(build, case.source, folder)
        first = not made
        made += arms_of(build, program, case, first)
        if first or name != "uts":
            made.append(reference(build, name, case, program, folder))
    return made


def rate_of(output: str, seconds: float) -> float:
    """The rate that a program printed, or the nodes that it printed over the time of the run."""
    if found := re.search(r"([\d.]+) edges/s", output):
        return float(found.group(1)) / 1e6
    if found := re.search(r"([\d.]+) ms an iteration", output):
        return 1e3 / float(found.group(1))
    nodes = re.search(r"nodes (\d+)", output)
    spent = re.search(r"([\d.]+) s$", output.strip())
    assert nodes is not None, output
    return int(nodes.group(1)) / (float(spent.group(1)) if spent else seconds) / 1e6


def measure(arm: Arm) -> None:
    """Runs the arm once. An arm that takes too long is left out of later rounds."""
    start = time.monotonic()
    done = in_group.run(arm.command, arm.environment, LIMIT_S, subprocess.STDOUT)
    if done is None:
        arm.failed = True
        return
    code, output = done
    if code != 0 or "NOT as published" in output or "WRONG" in output:
        sys.exit(f"{' '.join(arm.command)}: {code}\n{output}")
    arm.rates.append(rate_of(output, time.monotonic() - start))


def show(arm: Arm) -> str:
    late = f"  one took more than {LIMIT_S} s" if arm.failed else ""
    if not arm.rates:
        return f"{arm.name:36}{late}"
    low, high = min(arm.rates), max(arm.rates)
    return f"{arm.name:36} {statistics.median(arm.rates):9.2f}  ({low:.2f}-{high:.2f}){late}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: bench/lci/blocking.py --rounds 5"
    )
    parser.add_argument("--rounds", type=at_least_one, default=5)
    parser.add_argument("--cases", nargs="+", choices=cases(1, 1, ""), default=cases(1, 1, ""))
    parser.add_argument("--scale", type=int, default=16, help="scale of the graph")
    parser.add_argument("--roots", type=int, default=8, help="number of searches in a run")
    parser.add_argument("--tree", default="T3", help="tree of Unbalanced Tree Search")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.rounds} rounds")
    chosen = cases(options.scale, options.roots, options.tree)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.cases:
            made = arms(name, chosen[name], Path(folder))
            for _ in range(options.rounds):
                for arm in made:
                    if not arm.failed:
                        measure(arm)
            print(f"{name}: {chosen[name].unit}")
            for arm in made:
                print(show(arm), flush=True)


if __name__ == "__main__":
    main()
