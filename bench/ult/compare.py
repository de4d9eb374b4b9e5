#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Light tasks side by side: Manyhands and every other run time that was found when this was built.

In each round every run time does every case once, in an order that turns from round to round, each
in a process of its own. The table has medians over the rounds, and for each case how many times
faster Manyhands is than the best of the others in this run (below 1: slower). Run it on a quiet
machine; the first line says how busy it was.

    bench/ult/compare.py --build build --rounds 9
    bench/ult/compare.py --cases fib tree-1 tree-2 --run-times manyhands argobots onetbb

Cases: nanoseconds of one operation (create-join of 256 empty tasks, yield, signal until the other
task runs on the same worker and between two, lock by 8 tasks on one worker and two, a barrier of
16 tasks) or of a whole computation (fib(25), ten queens, a tree of 941,240 nodes; on two workers,
tree-1 on one). tree-2 is compared with its ideal as well: half of tree-1. `manyhands-own-stacks`
runs
each joined task on a stack of its own; `manyhands-shared` has one worker more, which is held.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

OPERATIONS = (
    "create-join",
    "yield",
    "signal-same",
    "signal-cross",
    "lock-1",
    "lock-2",
    "barrier",
)
COMPUTATIONS = ("fib", "queens", "tree-1", "tree-2")
RUN_TIMES = (
    "manyhands",
    "manyhands-own-stacks",
    "manyhands-shared",
    "argobots",
    "massivethreads",
    "qthreads",
    "boost-fiber",
    "onetbb",
    "threads",
)
OURS = ("manyhands", "manyhands-own-stacks", "manyhands-shared")
LIMIT_S = 20  # of one case in one process; a run time that exceeds it is left out of the case


def measure(program: Path, case: str) -> float | None:
    """Nanoseconds; None where the run time lacks the case, is too slow or fails."""
    try:
        run = subprocess.run([program, case], capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"{program.name} {case}: more than {LIMIT_S} s", file=sys.stderr)
        return None
    if run.returncode != 0:
        print(f"{program.name} {case}: {run.stderr.strip()}", file=sys.stderr)
        return None
    return float(run.stdout) if run.stdout.strip() else None


def text(ns: float | None) -> str:
    if ns is None:
        return "-"
    return f"{ns / 1e6:.2f} ms" if ns >= 1e6 else f"{ns:.1f}"


def show(results: dict[tuple[str, str], list[float]], names: list[str], cases: list[str]) -> None:
    medians = {key: statistics.median(values) for key, values in results.items()}
    print("".join(f"{word:>15}" for word in ["", *(name[-14:] for name in names), "best/ours"]))
    for case in cases:
        ours = medians.get(("manyhands", case))
        others = [medians[n, case] for n in names if n not in OURS and (n, case) in medians]
        ratio = f"{min(others) / ours:.2f}" if others and ours else "-"
        row = [case, *(text(medians.get((name, case))) for name in names), ratio]
        print("".join(f"{word:>15}" for word in row))
    for name in names:
        two = medians.get((name, "tree-2"))
        # A single worker has no cost of sharing: the fair base is a worker that pays this cost.
        shared = "manyhands-shared" if name == "manyhands" else name
        for half in dict.fromkeys((name, shared)):
            one = medians.get((half, "tree-1"))
            if one and two:
                share = 2 * two / one
                print(
                    f"{name}: the tree on two workers takes {share:.3f} of half of {half}'s on one"
                )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Light tasks side by side.",
        epilog="example: bench/ult/compare.py --build build --rounds 9",
    )
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cases", nargs="+", default=[*OPERATIONS, *COMPUTATIONS])
    parser.add_argument("--run-times", nargs="+", default=list(RUN_TIMES))
    options = parser.parse_args()
    programs = {name: options.build / "bin" / f"mh-ult-{name}" for name in options.run_times}
    absent = [name for name, program in programs.items() if not program.exists()]
    names = [name for name in programs if name not in absent]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.rounds} rounds")
    if absent:
        print(f"not built here: {', '.join(absent)}")
    results: dict[tuple[str, str], list[float]] = defaultdict(list)
    left_out: set[tuple[str, str]] = set()
    for turn in range(options.rounds):
        for case in options.cases:
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                if (name, case) in left_out:
                    continue
                ns = measure(programs[name], case)
                if ns is None:
                    left_out.add((name, case))
                else:
                    results[name, case].append(ns)
    show(results, names, options.cases)


if __name__ == "__main__":
    main()
