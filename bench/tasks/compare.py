# SPDX-License-Identifier: BSD-3-Clause
"""Compares task collections with oneTBB: runs programs in turn, prints medians of all rounds.

python bench/tasks/compare.py --mpi mpich4 --rounds 5 [--molecule examples/.../benzene.xyz]

Needs build/lib/libmanyhands-tasks.so; Debian: libtbb-dev, libssl-dev, and for Hartree-Fock
libint2-dev and libeigen3-dev.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
from collections import defaultdict
from pathlib import Path

import made
from manyhands_bench.arguments import at_least_one
from manyhands_bench.mpis import MpiBuild, Placement, find_builds

OUT = made.ROOT / "build" / "bench-tasks"
BALANCERS = ("none", "steal", "retain", "plb-central", "plb-tree", "auto")
TREES = ("T1", "T3")
FIGURE = re.compile(r"(?:^|\s)(task|steal|steal-64KB|end|time) ([\d.]+) (ns|ms|s)\b", re.MULTILINE)
EFFICIENCY = re.compile(r"^iteration (\d+) .*efficiency ([\d.]+) %$", re.MULTILINE)
LIMIT_S = 120


def build(mpi: MpiBuild, hartree_fock: bool) -> None:
    made.make_overhead(mpi, OUT)
    source = Path(__file__).parent / "onetbb.cpp"
    tbb = ["c++", *made.FLAGS, str(source), "-ltbb", "-o", str(OUT / "onetbb")]
    subprocess.run(tbb, check=True)
    made.make_example(mpi, OUT, "uts", "uts", "uts-tbb")
    if hartree_fock:
        made.make_example(mpi, OUT, "hartree-fock")


def main() -> None:
    builds = find_builds(made.ROOT)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpi", choices=builds, default="mpich4")
    parser.add_argument("--rounds", type=at_least_one, default=5)
    parser.add_argument(
        "--molecule", type=Path, help="molecule (.xyz file) for an additional run of Hartree-Fock"
    )
    options = parser.parse_args()
    mpi = builds[options.mpi]
    build(mpi, options.molecule is not None)

    def ranks(count: int) -> list[str]:
        return mpi.launch(count, Placement.FREE)

    overhead = str(OUT / "overhead")
    cases = {
        "empty task, ours": [*ranks(1), overhead, "task"],
        "empty task, oneTBB": [str(OUT / "onetbb")],
        "steal in the node": [*ranks(1), overhead, "steal"],
        "end of 16 ranks": [*ranks(16), overhead, "end"],
    }
    for tree in TREES:
        cases[f"UTS {tree}, 2 ranks"] = [*ranks(2), str(OUT / "uts"), tree, "steal"]
        cases[f"UTS {tree}, oneTBB, 2 threads"] = [str(OUT / "uts-tbb"), tree, "2"]
    figures: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for _ in range(options.rounds):
        for name, command in cases.items():
            for figure, value, unit in FIGURE.findall(made.output(command, mpi, LIMIT_S)):
                figures[name, figure, unit].append(float(value))
    for (name, figure, unit), values in figures.items():
        low, high = min(values), max(values)
        middle = statistics.median(values)
        print(f"{name:28} {figure:11} {middle:10.3f} {unit:2}  ({low:.3f} - {high:.3f})")
    for balancer in BALANCERS if options.molecule else ():
        command = [*ranks(2), str(OUT / "hartree-fock"), str(options.molecule), balancer]
        later: list[float] = []
        for _ in range(options.rounds):
            found = EFFICIENCY.findall(made.output(command, mpi, LIMIT_S))
            later += [float(value) for number, value in found if int(number) > 1]
        print(f"Hartree-Fock, {balancer:12} efficiency {statistics.median(later):.1f} %")


if __name__ == "__main__":
    main()
