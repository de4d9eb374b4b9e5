# SPDX-License-Identifier: BSD-3-Clause
"""Twelve programs: results, wall time, and time in MPI, plain and helped in turns.

.venv/bin/python bench/programs/compare.py --rounds 9 --json docs/results/programs.json

The arms of a round run one after the other, and each round begins with another arm:

* *bare* is the program alone.
* *plain* has a profile and no help: bare against plain shows what the profile costs.
* *unprofiled* has the default settings and no profile, as a user's job has.
* *default* has the default settings and a profile.
* *all* has everything that can be switched on, and a profile.
* *traced* (with `--traced`) has a trace as well: compare it with *default*.

The first table compares wall times. Its column *beyond* compares *unprofiled* with *bare*, each
less the time of its `MPI_Init`. This time comes from the profiles of *default* and *plain* in the
same round. The second table has the times in MPI.

All arms have to print the same results. A sign test says whether a ratio differs from 1. The script
needs a quiet machine and build/lib, and names the programs that are not installed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import comb
from pathlib import Path

from catalog import PROGRAMS, ROOT, Program
from manyhands.profiling import record
from manyhands_bench import host
from manyhands_bench.arguments import at_least_one
from manyhands_bench.launch import clean_environment
from manyhands_bench.mpis import MpiBuild, Placement, find_builds
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

LIBRARIES = ROOT / "build" / "lib"
FRONT, HEAP = LIBRARIES / "libmanyhands.so", LIBRARIES / "libmanyhands-heap.so"
ARMS: dict[str, dict[str, str]] = {
    "bare": {},
    "plain": {"LD_PRELOAD": str(FRONT), "MH_ENABLE": "0"},
    "unprofiled": {"LD_PRELOAD": f"{HEAP}:{FRONT}"},
    "default": {"LD_PRELOAD": f"{HEAP}:{FRONT}"},
    "all": {"LD_PRELOAD": f"{HEAP}:{FRONT}", "MH_HEAP": "on", "MH_OPENMP": "1"},
}
TRACED = {"traced": {**ARMS["default"], "MH_TRACE": "trace"}}  # the trace's folder
UNPROFILED = ("bare", "unprofiled")
RANKS = 2
LIMIT_S = 300
CERTAIN = 0.05  # a ratio differs from 1 if a two-sided sign test gives a smaller probability


@dataclass(frozen=True)
class Sample:
    """A finished run. The times in MPI are means over the ranks, and None without a profile.

    `collectives_s` is the part of `transfer_s` in blocking collectives.
    """

    wall_s: float
    results: list[str]
    init_s: float | None = None
    mpi_s: float | None = None
    transfer_s: float | None = None
    waiting_s: float | None = None
    collectives_s: float | None = None


class Failed(Exception):
    """A run failed, or printed no result. The text has the exit code and the end of its output."""


def run_once(program: Program, mpi: MpiBuild, arm: str) -> Sample:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program.set_up(folder)
        profile = folder / "mh-profile.json"
        settings = {**ARMS[arm], "OMP_NUM_THREADS": "1"}
        if arm not in UNPROFILED:
            settings["MH_PROFILE"] = str(profile)
        words = [f"{key}={value}" for key, value in settings.items()]
        command = [*mpi.launch(RANKS, Placement.CORES), "env", *words, *program.words]
        start = time.monotonic()
        done = subprocess.run(
            command,
            cwd=folder,
            env={**clean_environment(), **mpi.environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
        )
        wall_s = time.monotonic() - start
        results = program.result_of(folder, done.stdout) if done.returncode == 0 else []
        if not results:
            raise Failed(f"exit code {done.returncode}\n{(done.stdout + done.stderr)[-1500:]}")
        if arm in UNPROFILED:
            return Sample(wall_s, results)
        seen = record.read(profile)
        seconds = (seen.init_s, seen.mpi_s, seen.transfer_s, seen.waiting_s, in_collectives(seen))
        return Sample(wall_s, results, *seconds)


def in_collectives(seen: record.Profile) -> float:
    """Seconds of transfer in blocking collectives, the mean of the ranks."""
    return sum(row.transfer_s for row in seen.rows if row.is_collective) / len(seen.ranks)


def turns(rounds: int) -> Iterator[list[str]]:
    names = list(ARMS)
    for turn in range(rounds):
        begin = turn % len(names)
        yield names[begin:] + names[:begin]


def sign_test(ratios: list[float]) -> float:
    """The probability that chance alone divides the ratios at least as unevenly around 1."""
    decided = [ratio for ratio in ratios if ratio != 1]
    above = sum(ratio > 1 for ratio in decided)
    least = min(above, len(decided) - above)
    tail = sum(comb(len(decided), k) for k in range(least + 1)) / 2 ** len(decided)
    return min(1.0, 2 * tail)


def ratio_text(ours: list[float], others: list[float]) -> str:
    """The median of ours / others, with the mark * if a sign test tells the ratios from 1."""
    ratios = [a / b for a, b in zip(ours, others, strict=True) if b > 0]
    if not ratios:
        return ""
    mark = "*" if sign_test(ratios) < CERTAIN else ""
    return f"{statistics.median(ratios):.2f}{mark}"


def median_of(samples: list[Sample], field: str) -> float:
    return statistics.median(getattr(sample, field) for sample in samples)


def beyond_init(arms: dict[str, list[Sample]]) -> str:
    """The wall time of a user's job over that of the program alone, both without `MPI_Init`."""

    def seconds(whole: str, profiled: str) -> list[float]:
        pairs = zip(arms[whole], arms[profiled], strict=True)
        return [job.wall_s - (seen.init_s or 0.0) for job, seen in pairs]

    return ratio_text(seconds("unprofiled", "default"), seconds("bare", "plain"))


def ratio_of(arms: dict[str, list[Sample]], arm: str, base: str, field: str) -> str:
    def values(of: str) -> list[float]:
        return [getattr(sample, field) for sample in arms[of]]

    return ratio_text(values(arm), values(base))


def walls_row(program: Program, arms: dict[str, list[Sample]]) -> list[str]:
    cells = [program.name, f"{median_of(arms['bare'], 'wall_s'):.2f}"]
    cells += [ratio_of(arms, arm, "bare", "wall_s") for arm in WALLS]
    if "traced" in arms:
        cells.append(ratio_of(arms, "traced", "default", "wall_s"))
    same = all(sample.results == arms["bare"][0].results for of in arms.values() for sample in of)
    return [*cells, beyond_init(arms), "same" if same else "DIFFER"]


def inside_row(program: Program, arms: dict[str, list[Sample]]) -> list[str]:
    part = median_of(arms["plain"], "mpi_s") / median_of(arms["plain"], "wall_s")
    cells = [program.name, f"{100 * part:.0f}"]
    for field in FIELDS:
        cells.append(f"{1e3 * median_of(arms['plain'], field):.0f}")
        cells += [ratio_of(arms, arm, "plain", field) for arm in HELPED]
    return cells


WALLS = ("plain", "unprofiled", "default", "all")  # over bare
HELPED = ("default", "all")  # over plain
FIELDS = {
    "mpi_s": "in MPI",
    "transfer_s": "transfer",
    "collectives_s": "collect.",
    "waiting_s": "waiting",
}


def table(title: str, columns: list[str]) -> Table:
    made = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    made.add_column("program", no_wrap=True)
    for column in columns:
        made.add_column(column, justify="right", no_wrap=True)
    return made


def walls_table() -> Table:
    traced = ["traced"] if "traced" in ARMS else []
    return table(
        "wall times over bare, medians of ratios; * differs from 1 by a sign test",
        ["bare s", *WALLS, *traced, "beyond", "results"],
    )


def inside_table() -> Table:
    """Three columns for each of FIELDS: ms of plain, default and all over plain."""
    columns = [column for name in FIELDS.values() for column in (f"{name}\nms", "\ndef.", "\nall")]
    return table(
        "times in MPI: ms of plain, then the ratios of default and all to plain",
        ["MPI %", *columns],
    )


def measure(program: Program, mpi: MpiBuild, rounds: int, bar: Progress) -> dict[str, list[Sample]]:
    task = bar.add_task(program.name, total=rounds * len(ARMS))
    arms: dict[str, list[Sample]] = {arm: [] for arm in ARMS}
    program = program.built(mpi)
    for order in turns(rounds):
        for arm in order:
            arms[arm].append(run_once(program, mpi, arm))
            bar.advance(task)
    bar.remove_task(task)
    return arms


def report(rounds: int, measured: dict[str, dict[str, list[Sample]]]) -> str:
    samples = {
        name: {arm: [asdict(sample) for sample in of] for arm, of in arms.items()}
        for name, arms in measured.items()
    }
    head = {"machine": asdict(host.describe()), "date": datetime.date.today().isoformat()}
    return json.dumps({**head, "ranks": RANKS, "rounds": rounds, "programs": samples}, indent=1)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="example: bench/programs/compare.py --rounds 9 --only NWChem",
    )
    parser.add_argument(
        "--rounds", type=at_least_one, default=9, help="runs of each arm (default: 9)"
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        help="run programs with this text in the name; may be repeated",
    )
    parser.add_argument("--traced", action="store_true", help="add an arm with a trace")
    parser.add_argument("--json", type=Path, help="store all samples in this file")
    parsed = parser.parse_args()
    for library in (FRONT, HEAP):
        if not library.exists():
            sys.exit(f"{library} is not built: run make build")
    return parsed


def programs_named(texts: list[str] | None) -> list[Program]:
    """The programs that have one of the texts in their names; all programs without texts."""
    for text in texts or ():
        if not any(text.lower() in p.name.lower() for p in PROGRAMS):
            names = "; ".join(p.name for p in PROGRAMS)
            sys.exit(f"no program has '{text}' in its name; there are {names}")
    return [p for p in PROGRAMS if not texts or any(t.lower() in p.name.lower() for t in texts)]


def main() -> None:
    chosen = options()
    if chosen.traced:
        ARMS.update(TRACED)
    wanted = programs_named(chosen.only)
    out = Console(width=120)
    builds = find_builds(ROOT)
    walls, inside = walls_table(), inside_table()
    measured: dict[str, dict[str, list[Sample]]] = {}
    with Progress(console=out, transient=True) as bar:
        for program in wanted:
            missing = program.missing()
            if missing or program.mpi not in builds:
                out.print(f"{program.name} is left out: {missing or program.mpi + ' is missing'}")
                continue
            try:
                arms = measure(program, builds[program.mpi], chosen.rounds, bar)
            except (Failed, subprocess.CalledProcessError) as failure:
                out.print(f"{program.name} failed: {failure}", markup=False)
                continue
            measured[program.name] = arms
            walls.add_row(*walls_row(program, arms))
            inside.add_row(*inside_row(program, arms))
    if measured:
        out.print(walls, inside)
    if chosen.json:
        chosen.json.write_text(report(chosen.rounds, measured) + "\n")


if __name__ == "__main__":
    main()
