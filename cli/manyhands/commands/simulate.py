# SPDX-License-Identifier: BSD-3-Clause
"""`mh simulate`: task collections on a simulated machine; tables, CSV and plots.

The command runs mh-simulate, in which simulated cores process the tasks with the code of the
library for task collections. docs/tasks.md describes the model.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from manyhands import installation, say
from manyhands.outputs import obstacle_to, writing
from manyhands.program import as_word
from manyhands.simulating import draw, lines, tables
from manyhands.simulating.lines import Line

COLUMNS = 120
PROGRAM = "mh-simulate"


def simulate(
    cores: Annotated[
        list[int] | None,
        typer.Option(help="Number of cores; may be repeated. Default: 2400."),
    ] = None,
    scheme: Annotated[
        list[str] | None,
        typer.Option(
            help="Scheme: none, steal, retain, plb-central, plb-tree or auto; may be repeated. "
            "Default: retain."
        ),
    ] = None,
    problem: Annotated[
        str,
        typer.Option(help="Problem: hf-be256, hf-be512, hf-be512-20 (smaller tasks) or tce."),
    ] = "hf-be256",
    machine: Annotated[str, typer.Option(help="Machine: hopper, titan or intrepid.")] = "hopper",
    iterations: Annotated[int, typer.Option(min=1, help="Iterations of each run.")] = 5,
    victims: Annotated[
        str, typer.Option(help="Choice of victims: random, hierarchical or nearest.")
    ] = "random",
    balancers: Annotated[
        bool,
        typer.Option("--balancers", help="Print the table of balancers instead of iterations."),
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Option NAME=VALUE of mh-simulate, such as latency-ns, tasks or noise; may be "
            "repeated."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for CSV files and plots.")
    ] = Path("simulated"),
    program: Annotated[
        Path | None, typer.Option(help="Run this simulator instead of the installed one.")
    ] = None,
) -> None:
    """Simulate task collections: stealing, retention and balancers at any number of cores."""
    console = Console(width=COLUMNS, highlight=False)
    if (reason := obstacle_to(output)) is not None:
        say.fail(f"cannot write {output}: {reason}")
    simulator = program or _installed()
    common = ["--problem", problem, "--machine", machine, "--victims", victims]
    common += [f"--{setting}" for setting in option or []]
    found: list[Line] = []
    for count in cores or [2400]:
        size = [*common, "--cores", str(count)]
        if balancers:
            found += _lines(simulator, ["balancers", *size])
            continue
        for one in scheme or ["retain"]:
            run = ["run", *size, "--scheme", one, "--iterations", str(iterations)]
            found += _lines(simulator, run)
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
        _show(console, found, balancers, problem, machine, output)
    console.print(f"written to {output}/")


def _installed() -> Path:
    found = installation.program(PROGRAM)
    if found is None:
        say.fail(f"the program {PROGRAM} is missing: {installation.how_to_get_programs()}")
    return found


def _lines(program: Path, arguments: list[str]) -> Iterator[Line]:
    """Runs the simulator and yields each of its lines as it arrives."""
    try:
        process = subprocess.Popen(
            [as_word(program), *arguments], stdout=subprocess.PIPE, text=True
        )
    except OSError as error:
        say.fail(f"cannot run {program}: {error.strerror}")
    assert process.stdout is not None
    with process:
        for text in process.stdout:
            yield json.loads(text)
    if process.returncode != 0:
        # The simulator, a program of its own, has printed on standard error why it failed.
        raise typer.Exit(say.USAGE if process.returncode == say.USAGE else say.FAILURE)


def _show(
    console: Console, found: list[Line], balancers: bool, problem: str, machine: str, folder: Path
) -> None:
    title = f"{problem} on {machine}, simulated"
    plots = importlib.util.find_spec("matplotlib") is not None
    if not plots:
        say.note("no plots without matplotlib: pip install matplotlib")
    if balancers:
        table = lines.balancers(found)
        console.print(tables.balancers(table, problem, machine))
        lines.write_csv(folder / "balancers.csv", table)
        if plots:
            draw.balancers(folder / "balancers.png", table, title)
        return
    runs = lines.iterations(found)
    console.print(tables.iterations(runs, problem, machine))
    lines.write_csv(folder / "iterations.csv", runs)
    lines.write_utilization(folder / "utilization.csv", runs)
    if plots:
        draw.efficiency(folder / "efficiency.png", runs, title)
        draw.steals(folder / "steals.png", runs, title)
        draw.utilization(folder / "utilization.png", runs, title)


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: **mh simulate --cores 2400 --cores 9600 --scheme retain**")(
        simulate
    )
