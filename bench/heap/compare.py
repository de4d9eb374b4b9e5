#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Costs of allocation under several allocators in turn: glibc's, that of the heap, and others.

Run it on a quiet machine: bench/heap/compare.py [--rounds 9] [loop | random]. Prints medians over
the rounds. The column `off` is glibc's allocator behind the preloaded heap, `auto` the heap's own.
The column `glibc/auto` has the median of the ratios of times, and the number of rounds in which the
heap is as fast as glibc or faster. Allocators that are not installed are left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
from pathlib import Path

from manyhands_bench.arguments import at_least_one

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "bin" / "mh-allocation"
HEAP = ROOT / "build" / "lib" / "libmanyhands-heap.so"
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
ALLOCATORS = {
    "glibc": {},
    "off": {"LD_PRELOAD": str(HEAP), "MH_HEAP": "off"},
    "auto": {"LD_PRELOAD": str(HEAP), "MH_HEAP": "auto"},
    "mimalloc": {"LD_PRELOAD": str(LIBRARIES / "libmimalloc.so.2")},
    "jemalloc": {"LD_PRELOAD": str(LIBRARIES / "libjemalloc.so.2")},
}


def measure(environment: dict[str, str], what: str | None) -> dict[str, float]:
    done = subprocess.run(
        [str(PROGRAM), *([what] if what else [])],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    words = (line.split() for line in done.stdout.splitlines())
    return {name: float(value) for name, value in words}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", nargs="?", choices=["loop", "random"], help="measure only this part"
    )
    parser.add_argument("--rounds", type=at_least_one, default=9)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if not PROGRAM.exists() or not HEAP.exists():
        parser.error(f"{PROGRAM.name} and {HEAP.name} are not built: run make build")
    found = {
        name: environment
        for name, environment in ALLOCATORS.items()
        if Path(environment.get("LD_PRELOAD", "/")).exists()
    }
    results: dict[str, list[dict[str, float]]] = {name: [] for name in found}
    for i in range(options.rounds):
        for name, environment in list(found.items())[:: 1 if i % 2 == 0 else -1]:
            results[name].append(measure(environment, options.what))
    print(f"{'':16}" + "".join(f"{name:>12}" for name in found) + f"{'glibc/auto':>16}")
    for row in results["glibc"][0]:
        values = [statistics.median(one[row] for one in results[name]) for name in found]
        print(f"{row:16}" + "".join(f"{value:12.1f}" for value in values) + beside(results, row))


def beside(results: dict[str, list[dict[str, float]]], row: str) -> str:
    pairs = zip(results["glibc"], results["auto"], strict=True)
    ratios = [glibc[row] / auto[row] for glibc, auto in pairs]
    as_fast = sum(ratio >= 1 for ratio in ratios)
    return f"{statistics.median(ratios):8.2f} {as_fast:2} of {len(ratios)}"


if __name__ == "__main__":
    main()
