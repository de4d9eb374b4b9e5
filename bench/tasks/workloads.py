# SPDX-License-Identifier: BSD-3-Clause
"""Ten workloads for `auto`: the time of all iterations under each scheme, simulated.

python bench/tasks/workloads.py --output OUT

The machine is ten nodes of Hopper. Time is process() of all iterations and restore() between them.
OUT/auto.csv gets a row for each workload. `auto` is compared with the scheme that takes least time,
which a user could know only afterwards. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import tempfile
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIMULATOR = ROOT / "build" / "bin" / "mh-simulate"
SCHEMES = ("none", "steal", "retain", "plb-central", "plb-tree")
RANKS = 240
ITERATIONS = 24
Durations = list[list[float]]  # by iteration, or the same for all


@dataclass(frozen=True)
class Workload:
    """`make` returns seconds by task, a list for each iteration or a single one for all."""

    name: str
    make: Callable[[random.Random], Durations]
    words: tuple[str, ...] = ()


def uniform(each: int, seconds: float) -> Callable[[random.Random], Durations]:
    return lambda _: [[seconds] * (each * RANKS)]


def heavy_tailed(each: int, shape: float) -> Callable[[random.Random], Durations]:
    """Pareto; no task is longer than half of a rank's average load."""

    def make(source: random.Random) -> Durations:
        drawn = [source.paretovariate(shape) for _ in range(each * RANKS)]
        most = each * sum(drawn) / len(drawn) / 2
        return [[0.01 * min(one, most) for one in drawn]]

    return make


def drifting(step: float) -> Callable[[random.Random], Durations]:
    """Each duration changes by a factor of up to 1 + step, up or down, in each iteration."""

    def make(source: random.Random) -> Durations:
        now = [0.01 * source.paretovariate(2) for _ in range(50 * RANKS)]
        iterations = []
        for _ in range(ITERATIONS):
            iterations.append(now)
            now = [one * (1 + step) ** source.uniform(-1, 1) for one in now]
        return iterations

    return make


def redrawn(source: random.Random) -> Durations:
    return [[source.expovariate(50) for _ in range(50 * RANKS)] for _ in range(ITERATIONS)]


def in_one_region(part: float, factor: float) -> Callable[[random.Random], Durations]:
    """The first tasks, which begin on the first ranks, take `factor` times as long."""

    def make(source: random.Random) -> Durations:
        count = 50 * RANKS
        long = part * count
        shares = [factor if i < long else 1 for i in range(count)]
        return [[0.01 * share * source.uniform(0.8, 1.2) for share in shares]]

    return make


def by_level(source: random.Random) -> Durations:
    """Each node, NUMA node and core has a factor of its own."""
    durations = []
    for node in range(RANKS // 24):
        of_node = 1 + node % 3
        for _ in range(4):
            of_numa = source.uniform(0.5, 1.5)
            for _ in range(6):
                of_core = source.uniform(0.8, 1.2)
                durations += [0.01 * of_node * of_numa * of_core] * 50
    return [durations]


WORKLOADS = (
    Workload("uniform, 100 tasks a rank", uniform(100, 0.01)),
    Workload("uniform, 1000 tasks of 50 us a rank", uniform(1000, 50e-6)),
    Workload("heavy-tailed, 100 a rank", heavy_tailed(100, 1.5)),
    Workload("heavy-tailed, 12 a rank", heavy_tailed(12, 2)),
    Workload("drifting by 5 % an iteration", drifting(0.05)),
    Workload("drifting by 30 % an iteration", drifting(0.3)),
    Workload("drawn anew in each iteration", redrawn),
    Workload("one node of ten at half the speed", uniform(50, 0.01), ("--slow-node", "2")),
    Workload("an eighth of the tasks 10 times as long", in_one_region(0.125, 10)),
    Workload("uneven by node, NUMA node and core", by_level),
)


def seconds(workload: Workload, file: Path, tasks: int, scheme: str) -> float:
    command = [str(SIMULATOR), "run", "--durations", str(file), "--tasks", str(tasks)]
    command += ["--cores", str(RANKS), "--iterations", str(ITERATIONS), "--scheme", scheme]
    command += ["--victims", "hierarchical", *workload.words]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    # After each iteration, a program calls restore(), which prepares the tasks for the next one.
    # After the last iteration no program needs this, so its time does not count.
    iterations = [line for line in lines if line["kind"] == "iteration"]
    return (
        sum(line["end_s"] + line["restore_s"] for line in iterations) - iterations[-1]["restore_s"]
    )


def compare(workload: Workload) -> dict[str, float]:
    """Seconds by scheme, `auto` too."""
    durations = workload.make(random.Random(1))
    with tempfile.NamedTemporaryFile() as file:
        for one in durations:
            file.write(array("f", one).tobytes())
        file.flush()
        path, tasks = Path(file.name), len(durations[0])
        return {scheme: seconds(workload, path, tasks, scheme) for scheme in (*SCHEMES, "auto")}


def write(output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with (output / "auto.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("workload", *SCHEMES, "auto", "best", "auto_over_best_percent"))
        for workload in WORKLOADS:
            found = compare(workload)
            best = min(SCHEMES, key=lambda scheme: found[scheme])
            over = 100 * (found["auto"] / found[best] - 1)
            row = [f"{found[scheme]:.4f}" for scheme in (*SCHEMES, "auto")]
            writer.writerow((workload.name, *row, best, f"{over:.2f}"))
            print(f"{workload.name}: best {best}, auto {over:+.2f} %", row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    write(parser.parse_args().output)


if __name__ == "__main__":
    main()
