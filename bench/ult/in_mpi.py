#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Blocking MPI ping-pong of many light tasks, beside as many threads.

Two ranks have 64 players each: light tasks on one or two workers with Manyhands, threads without
Manyhands (plain), or threads with Manyhands. The four ways take turns, round after round. The table
has medians of thousands of messages a second, and each rate divided by that of plain threads. A run
whose tasks never park fails. The numbers need a quiet machine.

    bench/ult/in_mpi.py --rounds 9
    bench/ult/in_mpi.py --players 16 64 --work-ns 2000 --mpi mpich4
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cli"))

from manyhands_bench.arguments import at_least_one  # noqa: E402
from manyhands_bench.mpis import MpiBuild, Placement, find_builds  # noqa: E402

LIBRARY = ROOT / "build" / "lib"
SOURCE = Path(__file__).parent / "mpi_ping_pong.cpp"
LIMIT_S = 60
# Each way to run the program has a name, a number of workers of light tasks (0: threads instead of
# tasks), and whether Manyhands is preloaded.
WAYS = (
    ("tasks, 1 worker", 1, True),
    ("tasks, 2 workers", 2, True),
    ("threads, plain", 0, False),
    ("threads, Manyhands", 0, True),
)
BASE = "threads, plain"


def compiled(build: MpiBuild, folder: Path) -> Path:
    program = folder / build.name
    compiler = build.mpicc.with_name(build.mpicc.name.replace("mpicc", "mpicxx"))
    command = [compiler, "-std=c++20", "-O2", SOURCE, f"-I{ROOT / 'include'}", f"-L{LIBRARY}"]
    command += [f"-Wl,-rpath,{LIBRARY}", "-lmanyhands-ult", "-pthread", "-o", program]
    subprocess.run(command, check=True)
    return program


def rate(build: MpiBuild, program: Path, helped: bool, words: list[int]) -> float | None:
    """Messages a second, or None if the run took too long."""
    launch = build.launch(2, Placement.FREE)
    preload = ["env", f"LD_PRELOAD={LIBRARY / 'libmanyhands.so'}"] if helped else []
    command = [*launch, *preload, str(program), *map(str, words)]
    environment = {**os.environ, **build.environment()}
    try:
        run = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r"([\d.]+) messages/s", run.stdout)
    if run.returncode != 0 or found is None:
        sys.exit(f"{' '.join(command)}: {run.returncode}\n{run.stdout}{run.stderr}")
    return float(found.group(1))


def rounds_of(slow: bool, players: int, messages: int) -> int:
    """Rounds of a player. Plain threads play a tenth of the rounds, since some MPI libraries take
    50 times as long with threads.
    """
    return max(20, messages // players // (10 if slow else 1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: bench/ult/in_mpi.py --rounds 9"
    )
    parser.add_argument("--rounds", type=at_least_one, default=5)
    parser.add_argument("--players", type=int, nargs="+", default=[64])
    parser.add_argument("--bytes", type=int, default=64)
    parser.add_argument(
        "--work-ns", type=int, default=0, help="nanoseconds of computation before each send"
    )
    parser.add_argument(
        "--messages", type=int, default=400_000, help="approximate number of messages of a run"
    )
    parser.add_argument("--mpi", nargs="+", default=["mpich4", "openmpi4", "mpich5", "openmpi5"])
    options = parser.parse_args()
    installed = find_builds(ROOT)
    builds = [build for name, build in installed.items() if name in options.mpi]
    if not builds:
        parser.error(f"--mpi: none of these is installed; there are {', '.join(installed)}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.rounds} rounds")
    results: dict[tuple[str, int, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        programs = {build: compiled(build, Path(folder)) for build in builds}
        for _ in range(options.rounds):
            for build, program in programs.items():
                for players in options.players:
                    for name, workers, helped in WAYS:
                        turns = rounds_of(name == BASE, players, options.messages // 2)
                        words = [players, workers, turns, options.bytes, options.work_ns]
                        made = rate(build, program, helped, words)
                        if made is not None:
                            results.setdefault((build.name, players, name), []).append(made)
    for build in builds:
        for players in options.players:
            medians = {
                name: statistics.median(values)
                for name, *_ in WAYS
                if (values := results.get((build.name, players, name)))
            }
            for name, value in medians.items():
                times = f"{value / medians[BASE]:8.2f}" if BASE in medians else f"{'-':>8}"
                print(f"{build.name:10} {players:5} {name:20} {value / 1e3:10,.0f} {times}")


if __name__ == "__main__":
    main()
