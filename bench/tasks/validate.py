# SPDX-License-Identifier: BSD-3-Clause
"""Predicts real runs with the simulator, and prints prediction and measurement side by side.

python bench/tasks/validate.py --output OUT [--mpi mpich4] [--rounds 5] [--ranks 2]

1. Measures this machine: a task's overhead, a steal from a deque, a message and its send.
2. Records the seconds of every task: Hartree-Fock and the contraction with the balancer `none`, the
   tree of UTS node by node. A task's seconds are its median over the rounds and iterations.
3. Simulates the programs with these numbers, and runs the programs with each balancer.

Efficiency is the time in tasks over ranks times duration, the median over rounds and iterations
from the second on (UTS has one iteration). OUT/validation.csv gets a row for each program and
balancer, OUT/machine.json the measured numbers. No number is fitted to the runs that are predicted.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import platform
import re
import statistics
import struct
import subprocess
from array import array
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import made
from made import ROOT
from manyhands_bench.arguments import at_least_one
from manyhands_bench.mpis import MpiBuild, Placement, find_builds

WORK = ROOT / "build" / "validate-tasks"
SIMULATOR = ROOT / "build" / "bin" / "mh-simulate"
MOLECULES = ROOT / "examples" / "hartree-fock" / "molecules"
BALANCERS = ("none", "steal", "retain", "plb-central", "plb-tree", "auto")
FIGURE = re.compile(r"^(task|steal|steal-64KB|message|send) ([\d.]+) ns$", re.MULTILINE)
RESULT = re.compile(r"steals (\d+) time ([\d.]+) s efficiency ([\d.]+) %$", re.MULTILINE)
LIMIT_S = 300
ROW = struct.Struct("<IIf")  # as in examples/recording.hpp


@dataclass(frozen=True)
class Program:
    """A program, and its arguments before and after the name of the balancer."""

    name: str
    binary: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    task_bytes: int = 16


PROGRAMS = (
    Program("Hartree-Fock, benzene", "hartree-fock", (str(MOLECULES / "benzene.xyz"),)),
    Program("Hartree-Fock, chain of 32 H", "hartree-fock", (str(MOLECULES / "h32.xyz"),)),
    Program("contraction, 6 tiles", "tensor-contraction", (), ("6", "6", "8")),
    Program("UTS T1", "uts", ("T1",), task_bytes=32),
    Program("UTS T3", "uts", ("T3",), task_bytes=32),
)


def build(mpi: MpiBuild) -> None:
    made.make_overhead(mpi, WORK)
    made.make_example(mpi, WORK, "uts", "uts-tree")
    for example in sorted({program.binary for program in PROGRAMS}):
        made.make_example(mpi, WORK, example)


class Machine:
    """Runs programs of one MPI on this machine."""

    def __init__(self, mpi: MpiBuild, ranks: int, rounds: int) -> None:
        self.mpi = mpi
        self.ranks = ranks
        self.rounds = rounds

    def output(self, ranks: int, binary: str, *words: str) -> str:
        command = [*self.mpi.launch(ranks, Placement.FREE), str(WORK / binary), *words]
        return made.output(command, self.mpi, LIMIT_S, OPENBLAS_NUM_THREADS="1")

    def costs(self) -> dict[str, float]:
        """Medians over the rounds, in nanoseconds."""
        found: dict[str, list[float]] = defaultdict(list)
        for _ in range(self.rounds):
            for ranks, word in ((1, "task"), (1, "steal"), (2, "message")):
                for name, value in FIGURE.findall(self.output(ranks, "overhead", word)):
                    found[name].append(float(value))
        return {name: statistics.median(values) for name, values in found.items()}

    def results(self, program: Program, balancer: str) -> list[tuple[int, float]]:
        """Steals of all ranks and efficiency of each iteration from the second on, or of the only
        iteration.
        """
        results: list[tuple[int, float]] = []
        for _ in range(self.rounds):
            text = self.output(
                self.ranks, program.binary, *program.before, balancer, *program.after
            )
            one = [(int(steals), float(share)) for steals, _, share in RESULT.findall(text)]
            results += one if len(one) == 1 else one[1:]
        return results

    def recorded(self, program: Program) -> list[float]:
        """The seconds of each task; negative: the task prunes itself."""
        seconds: dict[int, list[float]] = defaultdict(list)
        for _ in range(self.rounds):
            path = WORK / "recorded"
            words = (*program.before, "none", *program.after, f"record={path}")
            self.output(self.ranks, program.binary, *words)
            for rank in range(self.ranks):
                file = Path(f"{path}.{rank}")
                for _, task, taken in ROW.iter_unpack(file.read_bytes()):
                    seconds[task].append(taken)
                file.unlink()
        return [statistics.median(seconds[task]) for task in sorted(seconds)]


def simulated(
    machine: Machine, costs: dict[str, float], program: Program, balancer: str, files: list[str]
) -> tuple[float, float]:
    """Steals of all ranks and efficiency in percent, as predicted."""
    send = costs["send"]
    options = {
        "cores": machine.ranks,
        "node": machine.ranks,
        "scheme": balancer,
        "victims": "hierarchical",
        "iterations": 1 if program.binary == "uts" else 8,
        "noise": 0,
        "take-ns": costs["task"],
        "look-ns": costs["steal"],
        "overhead-ns": send,
        "local-latency-ns": max(costs["message"] - 2 * send, 0),
        "latency-ns": max(costs["message"] - 2 * send, 0),
        "local-bandwidth": 65_536 / costs["steal-64KB"],
        "task-bytes": program.task_bytes,
    }
    words = [f"--{name}={_word(value)}" for name, value in options.items()]
    command = [str(SIMULATOR), "run", *words, *files]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    lines = [line for line in lines if line["kind"] == "iteration"]
    later = lines[1:] or lines
    steals = statistics.median(machine.ranks * line["steals"] for line in later)
    shares = [100 * line["in_tasks_s"] / (line["end_s"] * machine.ranks) for line in later]
    return steals, statistics.median(shares)


def _word(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def tasks_of(machine: Machine, program: Program) -> list[str]:
    """Writes the program's tasks for the simulator. Returns its options."""
    seconds = WORK / "seconds.bin"
    if program.binary == "uts":
        children = WORK / "children.bin"
        subprocess.run(
            [str(WORK / "uts-tree"), program.before[0], str(seconds), str(children)], check=True
        )
        return ["--durations", str(seconds), "--children", str(children)]
    found = machine.recorded(program)
    seconds.write_bytes(array("f", found).tobytes())
    return ["--durations", str(seconds), "--tasks", str(len(found))]


FIELDS = (
    *("program", "ranks", "balancer", "efficiency_predicted", "efficiency_measured"),
    *("efficiency_least", "efficiency_most", "steals_predicted", "steals_measured", "runs"),
)


def validate(machine: Machine, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    costs = machine.costs()
    about = {
        "date": datetime.date.today().isoformat(),
        "cpu": _cpu(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "mpi": machine.mpi.name,
        "load": os.getloadavg()[0],
        "ns": costs,
    }
    (output / "machine.json").write_text(json.dumps(about, indent=2) + "\n")
    with (output / "validation.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for program in PROGRAMS:
            files = tasks_of(machine, program)
            for balancer in BALANCERS if program.binary != "uts" else ("steal",):
                predicted = simulated(machine, costs, program, balancer, files)
                results = machine.results(program, balancer)
                shares = [share for _, share in results]
                row: list[object] = [program.name, machine.ranks, balancer]
                row += [f"{predicted[1]:.2f}", f"{statistics.median(shares):.2f}"]
                row += [min(shares), max(shares), f"{predicted[0]:.0f}"]
                row += [f"{statistics.median(steals for steals, _ in results):.0f}", len(shares)]
                writer.writerow(row)
                file.flush()
                print(*row, flush=True)


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main() -> None:
    builds = find_builds(ROOT)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpi", choices=builds, default="mpich4")
    parser.add_argument("--rounds", type=at_least_one, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    mpi = builds[options.mpi]
    build(mpi)
    validate(Machine(mpi, options.ranks, options.rounds), options.output)


if __name__ == "__main__":
    main()
