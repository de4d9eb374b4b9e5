#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The layout engine against loops written by hand and MPI_Pack/MPI_Unpack, on one core.

Compiles ladder.c with each MPI's own compiler, runs it pinned to a core, and prints a table. The
table has microseconds of the engine, then times *as a multiple of the engine's* for the
hand-written loop, for each MPI, and for memcpy of the packed bytes (the limit of one core). A
multiple below 1 is faster than the engine. The bar is the least multiple that the engine is to
reach: 1 for MPI_Pack and 1/1.2 for the loop; a missed bar is marked `!`. Each time is the median of
61 rounds in which the engine, the loop, MPI and memcpy take turns, or the fastest round with
--least.

The physical pages of a process change the time of a box edge in the second-level cache by 10 to
100 %. Several launches of each MPI (--launches) average this out: the table has the median over the
launches. A median below its bar is a tie, marked `~`, if a sign test over the launches does not
tell the median from the bar (5 %). A single launch has no ties.

    .venv/bin/python bench/layout/ladder.py --only "face z" --launches 9 --json out.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cli"))

from manyhands_bench.mpis import MpiBuild, Placement, find_builds  # noqa: E402
from manyhands_bench.rounds import UNLIKELY, chance  # noqa: E402

HAND_BAR = 1 / 1.2


def program_of(build: MpiBuild) -> Path:
    return ROOT / "build" / "bench" / build.name / "ladder"


def compile_for(build: MpiBuild) -> None:
    abi = {"abi": "abi"}.get(build.name, "openmpi" if build.family == "openmpi" else "mpich")
    program = program_of(build)
    program.parent.mkdir(parents=True, exist_ok=True)
    archives = [ROOT / f"build/lib/libmh-engine-{abi}.a", ROOT / "build/src/libmh_core.a"]
    flags = ["-O3", "-std=gnu11", "-Wall", "-Wextra", "-Wno-stringop-overflow", f"-I{ROOT}/src"]
    sources = [str(ROOT / "bench/layout" / name) for name in ("ladder.c", "types.c")]
    command = [str(build.mpicc), *flags, *sources, *map(str, archives), "-lstdc++", "-ldl"]
    subprocess.run([*command, "-o", str(program)], check=True)


def last_cache() -> str:
    """Bytes of the first core's last-level cache, read from sysfs as the library does; or 0."""
    sizes = [f.read_text() for f in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return str(max((int(size.strip().removesuffix("K")) << 10 for size in sizes), default=0))


# A key is the name of a type and a direction ("pack" or "unpack"). A launch is a run of ladder.c;
# it maps each key to the line of JSON that ladder.c printed.
Key = tuple[str, str]
Launch = dict[Key, dict]


def measured(build: MpiBuild, seconds: float, only: str) -> Launch:
    program = program_of(build)
    command = [*build.launch(1, Placement.CORES), str(program), str(seconds), only, last_cache()]
    environment = {**os.environ, **build.environment()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        sys.exit(f"no type has '{only}' in its name; without --only all types are measured")
    return {(line["type"], line["way"]): line for line in lines}


class Ratios:
    """Compares an arm with a bar: its time as a multiple of the engine's, for each launch."""

    def __init__(self, values: list[float], bar: float, may_tie: bool) -> None:
        self.middle = statistics.median(values)
        self.missed = self.middle < bar
        met = sum(value >= bar for value in values)
        self.tied = self.missed and may_tie and chance(met, len(values)) >= UNLIKELY

    def __str__(self) -> str:
        text = f"{self.middle:.2f}"
        if not self.missed:
            return text
        return f"[yellow]{text}~[/yellow]" if self.tied else f"[red]{text}![/red]"


def show(results: dict[str, list[Launch]], estimator: int) -> None:
    table = Table(title="one core: microseconds of the engine, others as multiples of it")
    for heading in ("type", "way", "KB", "blocks", "engine us", "hand", *results, "memcpy"):
        table.add_column(heading, justify="left" if heading in ("type", "way") else "right")
    first_launches = next(iter(results.values()))
    first = first_launches[0]
    bars: dict[str, list[Ratios]] = {"pack": [], "unpack": []}
    for key, line in first.items():

        def ratios(arm: str, launches: list[Launch], bar: float, key: Key = key) -> Ratios:
            lines = [launch[key] for launch in launches]
            shares = [one[arm][estimator] / one["engine"][estimator] for one in lines]
            return Ratios(shares, bar, may_tie=len(first_launches) > 1)

        # The hand-written loop and the engine are the same code under every MPI, so their times are
        # the medians over the launches under all of them.
        all_launches = [launch for launches in results.values() for launch in launches]
        engine = statistics.median(launch[key]["engine"][estimator] for launch in all_launches)
        hand = ratios("hand", all_launches, HAND_BAR)
        mpis = [ratios("mpi", launches, 1) for launches in results.values()]
        bars[key[1]] += [hand, *mpis]
        table.add_row(
            *key,
            f"{line['bytes'] / 1024:.{0 if line['bytes'] >= 10240 else 1}f}",
            str(line["blocks"]),
            f"{engine / 1000:.{0 if engine >= 1e5 else 3 if engine < 1e3 else 2}f}",
            *map(str, (hand, *mpis)),
            f"{ratios('memcpy', all_launches, 0).middle:.2f}",
        )
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    for way, met in bars.items():
        missed = sum(ratio.missed for ratio in met)
        ties = sum(ratio.tied for ratio in met)
        text = f"{way}: {missed} of {len(met)} bars missed"
        console.print(text + (f", {ties} of them ties (~)" if ties else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpi", default="", help="MPI builds, separated by commas (default: all)")
    parser.add_argument(
        "--only", default="", help="measure only types with this text in their names"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.2, help="seconds for each type and direction"
    )
    parser.add_argument("--launches", type=int, default=1, help="launches of each MPI, in turn")
    parser.add_argument(
        "--least", action="store_true", help="use the fastest round instead of the median"
    )
    parser.add_argument("--json", type=Path, help="store all numbers in this file")
    options = parser.parse_args()
    if options.launches < 1:
        parser.error("--launches must be at least 1")
    builds = find_builds(ROOT)
    # The build "abi" (MPI's standard ABI) is MPICH 5 under another name, so it would be measured
    # twice.
    names = options.mpi.split(",") if options.mpi else [name for name in builds if name != "abi"]
    unknown = [name for name in names if name not in builds]
    if unknown:
        sys.exit(
            f"no MPI compiler and launcher for {', '.join(unknown)}; found: {', '.join(builds)}"
        )
    for name in names:
        compile_for(builds[name])
    results: dict[str, list[Launch]] = {name: [] for name in names}
    rounds = [name for _ in range(options.launches) for name in names]
    for name in track(rounds, "launches", console=Console(stderr=True), transient=True):
        results[name].append(measured(builds[name], options.seconds, options.only))
    if options.json:
        rows = {name: [list(launch.values()) for launch in all_] for name, all_ in results.items()}
        options.json.write_text(json.dumps(rows, indent=1))
    show(results, 1 if options.least else 0)


if __name__ == "__main__":
    main()
