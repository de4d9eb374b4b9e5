# SPDX-License-Identifier: BSD-3-Clause
"""Writes docs/results/tasks.md and the files beside it: all simulated results, and the paper's.

python bench/tasks/results.py [--work FOLDER] [--jobs N] [--only-page]

Runs validate.py, workloads.py and the runs of scale.py, which takes an hour or two on a quiet
machine; a run whose file is in FOLDER is not repeated. N simulations run at a time, one a core
by default. The page has the paper's numbers in a column beside ours, and the error that the
validation found. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import scale
from manyhands.simulating import draw, lines, paper
from scale import Line

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "results"
SIMULATOR = ROOT / "build" / "bin" / "mh-simulate"
HERE = Path(__file__).parent

LARGE = 76800  # cores; the cost of such simulations is shown

INPUTS = (
    ("protocol", "the library's code", "`libs/tasks`, listed in `sim/simulation.hpp`"),
    ("cores of a node", "24, 16, 4", "the paper, section 7. All run tasks"),
    ("latency", "1.5, 1.5, 3.5 us", "published for Gemini and Blue Gene/P's torus, rounded"),
    ("overhead of a message", "0.7, 0.7, 2 us", "assumed: a threaded MPI of that time"),
    ("bandwidth", "5, 5, 0.4 GB/s", "half of a Gemini chip's peak (the paper), and of the torus"),
    (
        "deque and heap",
        "100 ns, 30 ns",
        "measured here ([costs](../tasks.md)), times 3; x4 on Intrepid",
    ),
    (
        "server",
        "a poll each 75 us, 2 us long",
        "server.hpp and the timer's slack of 50 us; assumed",
    ),
    ("number of tasks", "table 1", "the threshold of the screening follows from it"),
    ("spread of durations", "integrals of a beryllium chain", "computed, `sim/beryllium.hpp`"),
    ("sum of durations", "48 s on 2400 cores", "the ideal times in the caption of table 3"),
    ("other problems and cores", "in proportion", "to the tasks, and to peak operations a second"),
    ("contraction", "tiles and blocks of section 7.1", "peak operations, transfers; no cache"),
    ("null task", "two fetched tiles of 40 x 40", "latency and bandwidth above"),
    ("scatter of a task's time", "1 %, uniform", "assumed"),
)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    text += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(text) + "\n"


def iterations(work: Path, name: str) -> list[Line]:
    return [line for line in scale.lines(work, name) if line["kind"] == "iteration"]


class Errors:
    """The errors of the predicted efficiencies that the validation found, in points."""

    def __init__(self, folder: Path) -> None:
        with (folder / "validation.csv").open() as file:
            self.rows = list(csv.DictReader(file))
        self.machine = json.loads((folder / "machine.json").read_text())

    def error(self, *balancers: str) -> str:
        """The largest error of these balancers."""
        errors = [
            float(row["efficiency_predicted"]) - float(row["efficiency_measured"])
            for row in self.rows
            if row["balancer"] in balancers
        ]
        return f"{max(abs(one) for one in errors):.1f}"

    def of(self, scheme: str) -> str:
        return self.error(*(("steal", "retain") if scheme == "retain" else ("plb-tree",)))


def validation(errors: Errors) -> str:
    rows = []
    for row in errors.rows:
        predicted, measured = float(row["efficiency_predicted"]), float(row["efficiency_measured"])
        rows.append(
            (
                row["program"],
                row["balancer"],
                f"{predicted:.1f}",
                f"{measured:.1f} ({row['efficiency_least']} - {row['efficiency_most']})",
                f"{predicted - measured:+.1f}",
                f"{row['steals_predicted']} / {row['steals_measured']}",
            )
        )
    head = ("program", "balancer", "predicted, %", "measured (least - most)", "error")
    return table((*head, "steals, predicted / measured"), rows)


def table3(work: Path) -> str:
    rows = []
    for cores in paper.CORES:
        found = lines.balancers(scale.lines(work, f"table3-{cores}"))
        for central, tree in zip(found[::2], found[1::2], strict=True):
            n, m = central["period"], central["many"]
            rows.append(
                (
                    f"{cores:,}",
                    f"{n}, {m}",
                    f"{central['seconds']:.3f} / {tree['seconds']:.3f}",
                    paper.seconds(n, m, cores),
                    f"{100 * central['over_ideal']:.2f} / {100 * tree['over_ideal']:.2f}",
                    paper.over_ideal(n, m, cores),
                )
            )
    ours = ("s, central / tree", "the paper", "% over ideal, central / tree", "the paper")
    return table(("cores", "n, m", *ours), rows)


def cap(work: Path) -> str:
    rows = []
    for name in ("cap", "no-cap"):
        found = lines.balancers(scale.lines(work, f"table3-76800-{name}"))
        if not found:
            return ""
        shares = {
            balancer: [100 * one["over_ideal"] for one in found if one["balancer"] == balancer]
            for balancer in ("central", "tree")
        }
        limits = [f"{min(part):.1f} - {max(part):.1f}" for part in shares.values()]
        rows.append(("the longest task" if name == "cap" else "the average", *limits))
    return table(("limits refer at most to", "central, % over ideal", "tree, % over ideal"), rows)


PAPER_TEXT = {
    ("hf-be256", 9600, "retain", 1): "88 % (13.6 s)",
    ("hf-be256", 9600, "retain", 5): "95 % (12.6 s)",
    ("hf-be256", 9600, "plb-tree", 5): "98 % (12.2 s)",
    ("hf-be256", 38400, "plb-tree", 3): "24 points over iteration 2",
    ("hf-be512", 76800, "plb-tree", 3): "22 points over iteration 2",
    ("tce", 76800, "plb-tree", 3): "7 points over iteration 2",
}


def said(problem: str, machine: str, line: Line, last: bool) -> str:
    """The paper's numbers for this iteration."""
    cores, iteration = line["cores"], line["iteration"]
    found = paper.retention(line, problem, machine, last)
    text = PAPER_TEXT.get((problem, cores, line["scheme"], iteration))
    return ", ".join([text, *found] if text is not None else found)


def scheme_name(line: Line, seeded: bool) -> str:
    if seeded:
        return {1: "steal", 2: "seeded, no steals"}.get(line["iteration"], line["scheme"])
    return str(line["scheme"])


def scaled(work: Path, errors: Errors) -> tuple[str, list[Line]]:
    rows: list[Sequence[object]] = []
    all_lines: list[Line] = []
    for run in scale.runs():
        if run.words[0] != "run":
            continue
        problem, machine = run.words[2], run.words[4]
        seeded, server, with_null = (
            "--" + word in run.words for word in ("seeded", "server", "all")
        )
        found = iterations(work, run.name)
        for line in found:
            mark = " with servers" if server else ""
            scheme = (
                "StealAll" if with_null and line["iteration"] == 1 else scheme_name(line, seeded)
            )
            null = int(with_null and line["iteration"] == 1)
            all_lines.append({"problem": problem, "machine": machine, "null_tasks": null, **line})
            rows.append(
                (
                    f"{problem}, {machine}{mark}",
                    f"{line['cores']:,}",
                    line["iteration"],
                    scheme,
                    f"{100 * line['efficiency']:.1f} (+- {errors.of(line['scheme'])})",
                    f"{line['attempts']:.0f}",
                    f"{line['steals']:.2f}",
                    "" if with_null else said(problem, machine, line, line is found[-1]),
                )
            )
    head = ("problem, machine", "cores", "iteration", "scheme", "efficiency, %", "attempts")
    return table((*head, "steals", "the paper"), rows), all_lines


def costs(work: Path) -> str:
    """The time and the memory of the largest simulations."""
    rows = []
    for run in scale.runs():
        found = iterations(work, run.name)
        cost = [line for line in scale.lines(work, run.name) if line["kind"] == "cost"]
        if not found or not cost or found[0]["cores"] < LARGE:
            continue
        minutes = f"{cost[0]['cpu_s'] / 60:.1f}"
        memory = f"{cost[0]['memory_mb'] / 1024:.1f}"
        tasks = f"{found[0]['run']:,}"
        rows.append((run.words[2], f"{found[0]['cores']:,}", tasks, len(found), minutes, memory))
    if not rows:
        return "Not recorded."
    head = ("problem", "cores", "tasks", "iterations", "minutes of a core", "memory, GB")
    return table(head, rows)


def missing(work: Path) -> str:
    names = [f"`{run.name}`" for run in scale.runs() if not (work / f"{run.name}.jsonl").exists()]
    return "Listed in `scale.py` but not run: " + ", ".join(names) + "." if names else ""


def automatic(folder: Path) -> str:
    with (folder / "auto.csv").open() as file:
        rows = list(csv.DictReader(file))
    schemes = ("none", "steal", "retain", "plb-central", "plb-tree", "auto")
    body = [
        (
            row["workload"],
            *(row[one] for one in schemes),
            row["best"],
            row["auto_over_best_percent"],
        )
        for row in rows
    ]
    return table(("workload", *(f"{one}, s" for one in schemes), "best", "auto, % over"), body)


def pictures(work: Path, folder: Path) -> None:
    shown = []
    for cores in (2400, 9600):
        for name in (
            f"hf-be256-hopper-{cores}-retain",
            f"hf-be256-hopper-{cores}-plb-tree-seeded-1",
        ):
            shown += iterations(work, name)
    draw.utilization(folder / "utilization.png", shown, "hf-be256 on hopper, simulated")


def page(work: Path, folder: Path) -> str:
    errors = Errors(folder)
    runs, all_lines = scaled(work, errors)
    lines.write_csv(folder / "iterations.csv", all_lines)
    pictures(work, folder)
    machine = errors.machine
    ns = ", ".join(f"{name} {value:.0f}" for name, value in machine["ns"].items())
    about = (HERE / "results_about.txt").read_text()
    parts = {
        "DATE": f"{datetime.date.fromisoformat(machine['date']):%-d %B %Y}",
        "FOLDER": folder.name,
        "INPUTS": table(("input", "value", "where it comes from"), INPUTS),
        "MACHINE": f"{machine['cpu']}, {machine['cores']} cores, {machine['mpi']}, "
        f"load average {machine['load']:.1f}; in nanoseconds: {ns}",
        "MISSING": missing(work),
        "VALIDATION": validation(errors),
        "TABLE3": table3(work),
        "CAP": cap(work),
        "RUNS": runs,
        "COSTS": costs(work),
        "AUTO": automatic(folder),
    }
    for name, text in parts.items():
        about = about.replace(f"@{name}@", text.rstrip("\n"))
    return about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "tasks-results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only-page", action="store_true")
    options = parser.parse_args()
    if importlib.util.find_spec("matplotlib") is None:
        parser.error("the page's picture needs matplotlib: pip install matplotlib")
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    work: Path = options.work
    if not options.only_page:
        for script in ("validate.py", "workloads.py"):
            command = [sys.executable, str(HERE / script), "--output", str(work)]
            subprocess.run(command, check=True)
        scale.run_all(SIMULATOR, work, options.jobs)
    date = json.loads((work / "machine.json").read_text())["date"]
    folder = DOCS / f"tasks-{datetime.date.fromisoformat(date)}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("machine.json", "validation.csv", "auto.csv"):
        shutil.copy(work / name, folder / name)
    table_lines = [
        line
        for cores in paper.CORES
        for line in lines.balancers(scale.lines(work, f"table3-{cores}"))
    ]
    lines.write_csv(folder / "balancers.csv", table_lines)
    (DOCS / "tasks.md").write_text(page(work, folder))


if __name__ == "__main__":
    main()
