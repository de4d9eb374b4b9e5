#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare Manyhands with every other runtime of light tasks that was found at build time.

In each round, every runtime does every case once, each time in a new process. The order of the
runtimes rotates from round to round. The table has medians over the rounds. Its last column is the
time of the best other runtime divided by the time of Manyhands (below 1: Manyhands is slower).
Run the script on a quiet machine; the first line of output has the load average.

    bench/ult/compare.py --build build --rounds 9
    bench/ult/compare.py --cases fib tree-1 tree-2 --run-times manyhands argobots onetbb

Cases with the time of one operation, in nanoseconds:

    create-join   create and join a task, in groups of 256 empty tasks
    yield         switch to the other of two tasks
    signal-same   from a signal until the other task runs, on the same worker
    signal-cross  the same between two workers
    lock-1        lock and unlock, with 8 tasks on one worker
    lock-2        the same on two workers
    barrier       one barrier of 16 tasks, divided by 16

Cases with the time of a whole computation, on two workers except for tree-1:

    fib           fib(25)
    queens        the ten queens problem
    tree-1        a tree of 941,240 nodes, on one worker
    tree-2        the same tree on two workers, also compared with half the time of tree-1

`manyhands-own-stacks` runs each joined task on its own stack. `manyhands-shared` has an additional
worker, which stays in a blocking call.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from manyhands_bench.arguments import at_least_one

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
LIMIT_S = 20  # longest time of a case in one process; a slower runtime is left out of the case


def measure(program: Path, case: str) -> float | None:
    """Return nanoseconds, or None if the runtime lacks the case, is too slow or fails."""
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
        # A scheduler of Manyhands with one worker does not pay for the atomics of stealing. The
        # variant manyhands-shared does pay, so its time on one worker is the fair one to compare
        # with two workers.
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
        description="Compares the costs of libraries of light tasks.",
        epilog="example: bench/ult/compare.py --build build --rounds 9",
    )
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--rounds", type=at_least_one, default=9)
    parser.add_argument("--cases", nargs="+", default=[*OPERATIONS, *COMPUTATIONS])
    parser.add_argument("--run-times", nargs="+", default=list(RUN_TIMES))
    options = parser.parse_args()
    programs = {name: options.build / "bin" / f"mh-ult-{name}" for name in options.run_times}
    absent = [name for name, program in programs.items() if not program.exists()]
    names = [name for name in programs if name not in absent]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.rounds} rounds")
    if absent:
        print(f"not measured, because they are not built: {', '.join(absent)}")
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
