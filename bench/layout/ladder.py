#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The layout engine against loops written by hand and MPI_Pack/MPI_Unpack, on one core.

Compiles ladder.c with each MPI's own compiler, runs it pinned, and prints a table: microseconds of
the engine, then times *as a multiple of the engine's* for the hand-written loop, for each MPI, and
for memcpy of the packed bytes (what one core's memory allows). Below 1 the other one is faster; the
bars are 1 for MPI_Pack and 1/1.2 for the loop, and what misses one is marked. Each time is the
median of 61 rounds in which all arms take turns, or with --least the fastest one.

    .venv/bin/python bench/layout/ladder.py --only "face z" --json out.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cli"))

from manyhands.benchmarks.mpis import MpiBuild, Placement, find_builds  # noqa: E402

HAND_BAR = 1 / 1.2


def program_for(build: MpiBuild) -> Path:
    abi = {"abi": "abi"}.get(build.name, "openmpi" if build.family == "openmpi" else "mpich")
    program = ROOT / "build" / "bench" / build.name / "ladder"
    program.parent.mkdir(parents=True, exist_ok=True)
    archives = [ROOT / f"build/lib/libmh-engine-{abi}.a", ROOT / "build/src/libmh_core.a"]
    flags = ["-O3", "-std=gnu11", "-Wall", "-Wextra", "-Wno-stringop-overflow", f"-I{ROOT}/src"]
    sources = [str(ROOT / "bench/layout" / name) for name in ("ladder.c", "types.c")]
    command = [str(build.mpicc), *flags, *sources, *map(str, archives), "-lstdc++", "-ldl"]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def last_cache() -> str:
    """Bytes of the first core's last cache, as the library learns them; 0 where nobody knows."""
    sizes = [f.read_text() for f in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return str(max((int(size.strip().removesuffix("K")) << 10 for size in sizes), default=0))


def measured(build: MpiBuild, seconds: float, only: str) -> dict[tuple[str, str], dict]:
    program = program_for(build)
    command = [*build.launch(1, Placement.CORES), str(program), str(seconds), only, last_cache()]
    environment = {**os.environ, **build.environment()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(line["type"], line["way"]): line for line in lines}


def multiple(value: float, bar: float) -> str:
    text = f"{value:.2f}"
    return f"[red]{text}![/red]" if value < bar else text


def show(results: dict[str, dict[tuple[str, str], dict]], estimator: int) -> None:
    table = Table(title="one core: microseconds of the engine, others as multiples of it")
    for heading in ("type", "way", "KB", "blocks", "engine us", "hand", *results, "memcpy"):
        table.add_column(heading, justify="left" if heading in ("type", "way") else "right")
    first = next(iter(results.values()))
    misses = 0
    for key, line in first.items():
        runs = [result[key] for result in results.values()]
        # Hand and engine are the same code in every run: the median of the runs.
        middle = len(runs) // 2
        engine = sorted(run["engine"][estimator] for run in runs)[middle]
        hand = sorted(run["hand"][estimator] / run["engine"][estimator] for run in runs)[middle]
        copy = sorted(run["memcpy"][estimator] / run["engine"][estimator] for run in runs)[middle]
        mpis = [run["mpi"][estimator] / run["engine"][estimator] for run in runs]
        misses += (hand < HAND_BAR) + sum(value < 1 for value in mpis)
        table.add_row(
            *key,
            f"{line['bytes'] / 1024:.0f}"
            if line["bytes"] >= 10240
            else f"{line['bytes'] / 1024:.1f}",
            str(line["blocks"]),
            f"{engine / 1000:.2f}",
            multiple(hand, HAND_BAR),
            *(multiple(value, 1) for value in mpis),
            f"{copy:.2f}",
        )
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    console.print(f"{misses} of {len(first) * (len(results) + 1)} bars missed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpi", default="", help="names of MPI builds, by commas (default: all)")
    parser.add_argument("--only", default="", help="part of a type's name")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each type and direction")
    parser.add_argument("--least", action="store_true", help="the fastest round, not the median")
    parser.add_argument("--json", type=Path, help="store all numbers")
    options = parser.parse_args()
    builds = find_builds(ROOT)
    # The standard ABI is MPICH 5 under another name.
    names = options.mpi.split(",") if options.mpi else [name for name in builds if name != "abi"]
    unknown = [name for name in names if name not in builds]
    if unknown:
        sys.exit(
            f"no MPI compiler and launcher for {', '.join(unknown)}; found: {', '.join(builds)}"
        )
    results = {name: measured(builds[name], options.seconds, options.only) for name in names}
    if options.json:
        rows = {name: list(result.values()) for name, result in results.items()}
        options.json.write_text(json.dumps(rows, indent=1))
    show(results, 1 if options.least else 0)


if __name__ == "__main__":
    main()
