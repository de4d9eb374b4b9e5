# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified miniFE and HPCCG (Mantevo suite): static OpenMP loops, even and uneven ranks.

    git clone https://github.com/Mantevo/miniFE; make -C miniFE/openmp/src CXX=mpicxx CC=mpicc
    git clone https://github.com/Mantevo/HPCCG; make -C HPCCG CXX=mpicxx LINKER=mpicxx \
        USE_MPI=-DUSING_MPI USE_OMP=-DUSING_OMP OMP_FLAGS=-fopenmp CPP_OPT_FLAGS=-O3
    .venv/bin/python bench/programs/uneven.py --minife miniFE/openmp/src/miniFE.x \
        --hpccg HPCCG/test_HPCCG --mpi mpich4 --rounds 9

Two ranks run plain with one thread and with the settings of `mh run --openmp-threads auto`, with
even and with uneven work, in turns. In an uneven run one rank has half to three quarters more work
than the other: miniFE by its option `load_imbalance`, HPCCG by a matrix with more entries in the
rows of rank 0. The even run has the same total work, so its plain time is the ideal. An uneven
launch with `MH_OPENMP=static` in which no helper did a part of a loop is an error.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compare import FRONT, HEAP, LIMIT_S, RANKS, ROOT, Failed
from manyhands import openmp_threads
from manyhands_bench.arguments import at_least_one
from manyhands_bench.launch import clean_environment
from manyhands_bench.mpis import MpiBuild, Placement, find_builds
from manyhands_bench.rounds import in_turn
from rich.console import Console
from rich.table import Table

ARMS = {
    "plain": {"OMP_NUM_THREADS": "1"},
    "shared": {"LD_PRELOAD": f"{HEAP}:{FRONT}", **openmp_threads.settings("auto", False)},
}
WORKS = ("even", "uneven")
ROWS = 120_000  # rows of HPCCG's matrix


@dataclass(frozen=True)
class Measured:
    name: str
    binary: Path
    words: dict[str, list[str]]  # arguments, by work ("even" or "uneven")
    seconds: str  # a regular expression for the solver's time in the output
    result: str  # a regular expression for the lines that all runs of the same work must share
    output: str = ""  # a glob pattern of the file with the time; empty: standard output


def minife(binary: Path) -> Measured:
    size = ["nx=80", "ny=80", "nz=80", "verify_solution=1"]
    words = {"even": size, "uneven": [*size, "load_imbalance=20"]}
    solved = r"^Initial Residual.*$|^solution matches.*$"
    return Measured("miniFE", binary, words, r"Total CG Time: ([\d.]+)", solved, "*.yaml")


def hpccg(binary: Path, folder: Path) -> Measured:
    words = {"even": [write_matrix(folder / "even", 18, 18)]}
    words["uneven"] = [write_matrix(folder / "uneven", 23, 13)]
    solved = r"^Initial Residual.*$|^Iteration = (?:15|30|45) .*$"
    return Measured("HPCCG", binary, words, r"Total\s*: ([\d.]+)", solved)


def write_matrix(file: Path, first: int, last: int) -> str:
    """Writes a linear system with a symmetric matrix. Rows of the first half have entries up to
    `first` places from the diagonal, rows of the last half up to `last` places. The initial guess
    is 0. Returns the path.
    """
    reach = [first] * (ROWS // 2) + [last] * (ROWS // 2)
    rows = []
    for i in range(ROWS):
        far = range(max(0, i - max(first, last)), min(ROWS, i + max(first, last) + 1))
        rows.append([j for j in far if abs(i - j) <= min(reach[i], reach[j])])
    with file.open("w") as out:
        print(ROWS, sum(map(len, rows)), *(len(row) for row in rows), sep="\n", file=out)
        for i, row in enumerate(rows):
            entries = (f"{len(row) if i == j else -1} {j}" for j in row)
            print(len(row), *entries, sep="\n", file=out)
        out.writelines(f"0 {i % 7 - 3} 0\n" for i in range(ROWS))
    return str(file)


def run_once(program: Measured, mpi: MpiBuild, arm: str, work: str) -> tuple[float, list[str]]:
    """The solver's time, and the lines that must be equal in all runs of the same work."""
    with tempfile.TemporaryDirectory() as name:
        summary = Path(name) / "summary.json"
        settings = ARMS[arm] | {"MH_SUMMARY_JSON": str(summary)}
        words = [f"{key}={value}" for key, value in settings.items()]
        command = [*mpi.launch(RANKS, Placement.CORES), "env", *words, str(program.binary)]
        done = subprocess.run(
            [*command, *program.words[work]],
            cwd=name,
            env={**clean_environment(), **mpi.environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        files = [path.read_text() for path in Path(name).glob(program.output or "nothing")]
        found = re.search(program.seconds, "\n".join([done.stdout, *files]))
        if done.returncode != 0 or found is None:
            raise Failed(f"exit code {done.returncode}\n{(done.stdout + done.stderr)[-1500:]}")
        if arm == "shared" and work == "uneven" and not helped(summary):
            raise Failed(f"{program.name}: no helper ran a part of a loop")
        solved = re.finditer(program.result, done.stdout, re.MULTILINE)
        return float(found.group(1)), [match.group(0) for match in solved]


def helped(summary: Path) -> bool:
    return json.loads(summary.read_text())["total"]["loops"]["units_by_others"] > 0


Times = dict[str, dict[str, list[float]]]  # by work and arm


def measure(program: Measured, mpi: MpiBuild, rounds: int) -> Times:
    times: Times = {work: {arm: [] for arm in ARMS} for work in WORKS}
    results: dict[str, list[str]] = {}
    for nth in range(rounds):
        for work in WORKS:
            for arm in in_turn(list(ARMS), nth):
                seconds, solved = run_once(program, mpi, arm, work)
                if not solved or solved != results.setdefault(work, solved):
                    raise Failed(f"{program.name}, {work}: {results[work]} and {solved}")
                times[work][arm].append(seconds)
    return times


def by_round(times: Times, number: Callable[[dict[str, dict[str, float]]], float]) -> str:
    """The median over the rounds of a `number` that is computed from a round's times, and its
    range.
    """
    rounds = len(times["even"]["plain"])
    found = [
        number({work: {arm: times[work][arm][i] for arm in ARMS} for work in WORKS})
        for i in range(rounds)
    ]
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def gained(one: dict[str, dict[str, float]]) -> float:
    even, uneven = one["even"], one["uneven"]
    return (uneven["plain"] - uneven["shared"]) / (uneven["plain"] - even["plain"])


def show(measured: dict[str, Times]) -> None:
    columns = ("", "even plain s", "shared s", "plain / shared", "uneven plain s", "shared s")
    table = Table(*columns, "of the possible gain", box=None)
    for name, times in measured.items():
        medians = {(w, a): f"{statistics.median(times[w][a]):.3f}" for w in WORKS for a in ARMS}
        table.add_row(
            name,
            medians["even", "plain"],
            medians["even", "shared"],
            by_round(times, lambda one: one["even"]["plain"] / one["even"]["shared"]),
            medians["uneven", "plain"],
            medians["uneven", "shared"],
            by_round(times, gained),
        )
    Console(width=130).print(table)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minife", type=Path, help="path of the program miniFE.x")
    parser.add_argument("--hpccg", type=Path, help="path of the program test_HPCCG")
    parser.add_argument(
        "--mpi", default="mpich4", help="MPI build of both programs (default: mpich4)"
    )
    parser.add_argument("--rounds", type=at_least_one, default=9)
    parser.add_argument("--json", type=Path, help="store all times in this file")
    parsed = parser.parse_args()
    if not (parsed.minife or parsed.hpccg):
        parser.error("nothing to run: give --minife, --hpccg or both")
    if parsed.mpi not in find_builds(ROOT):
        parser.error(
            f"--mpi: {parsed.mpi} is not installed; there are {', '.join(find_builds(ROOT))}"
        )
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    for file in (parsed.minife, parsed.hpccg):
        if file is not None and not file.exists():
            parser.error(f"{file} does not exist")
    for library in (FRONT, HEAP):
        if not library.exists():
            sys.exit(f"{library} is not built: run make build")
    return parsed


def main() -> None:
    chosen = options()
    mpi = find_builds(ROOT)[chosen.mpi]
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        programs = [minife(chosen.minife.resolve())] if chosen.minife else []
        programs += [hpccg(chosen.hpccg.resolve(), Path(name))] if chosen.hpccg else []
        for program in programs:
            try:
                measured[program.name] = measure(program, mpi, chosen.rounds)
            except Failed as failure:
                sys.exit(str(failure))
    show(measured)
    if chosen.json:
        chosen.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
