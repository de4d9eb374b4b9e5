# SPDX-License-Identifier: BSD-3-Clause
"""`mh bench`: programs measured plain and helped, in turn.

A round launches each arm of a case once, and every second round launches the arms in reverse order.
At least five rounds give a ratio with a range. Pinning and estimators are the same for all arms.
docs/benchmarks.md explains each number.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import time
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from manyhands_bench import (
    emulated,
    emulated_cases,
    emulated_nodes,
    emulated_results,
    emulated_show,
    host,
    launch,
    loops,
    mpis,
    runs,
    show,
)
from manyhands_bench.cases import CASES, Case, select
from manyhands_bench.loops import Record
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from manyhands import installation, say
from manyhands.outputs import writable, writing

MIN_ROUNDS = 5
QUIET_LOAD = 0.5
COLUMNS = 100


def bench(
    short: Annotated[
        bool, typer.Option("--short", help="Run only latency, PingPong and small collectives.")
    ] = False,
    mpi: Annotated[
        list[str] | None,
        typer.Option(
            help="MPI build: mpich4, openmpi4, mpich5, openmpi5 or abi; may be repeated. "
            "Default: all."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Case to run; may be repeated. --list shows all cases."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="Number of rounds; each launches every arm once.")
    ] = MIN_ROUNDS,
    rest: Annotated[
        float,
        typer.Option(
            min=0,
            help="Idle seconds before each round. Without rest, hosts of virtual machines move "
            "busy cores apart.",
        ),
    ] = 0,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", callback=writable, help="Write all samples to this file."),
    ] = None,
    stored: Annotated[
        Path | None,
        typer.Option(
            "--from",
            exists=True,
            dir_okay=False,
            help="Show results stored by --json; run nothing.",
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Show for each MPI whether the project's bars are met."),
    ] = False,
    plot_file: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            callback=writable,
            help="Draw a PNG file: speedup over size, times of ranks, times over imbalance.",
        ),
    ] = None,
    control: Annotated[
        bool,
        typer.Option(
            "--control", help="Compare plain with plain to show the noise of this machine."
        ),
    ] = False,
    best: Annotated[
        bool,
        typer.Option("--best", help="Use the fastest batch of each launch instead of the median."),
    ] = False,
    library: Annotated[
        Path | None, typer.Option(help="Preload this library instead of the one built here.")
    ] = None,
    oversubscribe: Annotated[
        bool, typer.Option("--oversubscribe", help="Also run cases with more ranks than cores.")
    ] = False,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases and exit.")] = False,
    emulate: Annotated[
        str | None,
        typer.Option(
            "--emulate",
            metavar="MODEL",
            help="Emulate a node of many cores, e.g. broadwell-36 (bench/emulate/models).",
        ),
    ] = None,
) -> None:
    """Measure programs plain and helped in turn, with the memcpy limit of the same run."""
    console = _console()
    if list_cases:
        _list(console)
        return
    if plot_file is not None and importlib.util.find_spec("matplotlib") is None:
        say.fail("--plot needs matplotlib: pip install matplotlib")
    if emulate is not None:
        _emulate(console, emulate, only or [], mpi or [], json_file, plot_file, library)
        return
    if stored is not None:
        report = _stored(stored)
        if report.get("what") == emulated_results.WHAT:
            emulated_show.report(console, report)
            return
    else:
        preload = (
            None if control else installation.needed_library(library, "--control needs no library")
        )
        cases = _cases(only or [], short)
        report = _measure(console, cases, _builds(mpi or []), rounds, rest, preload, oversubscribe)
    pick = min if best else median
    if json_file is not None:
        report["loop_bars"] = [
            loops.as_json(name, verdict)
            for name, row in show.loop_verdicts(report, pick).items()
            for verdict in row
        ]
        with writing(json_file):
            json_file.write_text(json.dumps(report, indent=1) + "\n")
        console.print(f"wrote {json_file}", soft_wrap=True)
    show.report_tables(console, report, pick)
    if compare:
        show.bars(console, report, pick)
    if plot_file is not None:
        with writing(plot_file):
            show.draw(console, report, plot_file, pick)
    if any(record["errors"] for record in report["records"]):
        raise typer.Exit(1)


def _emulate(
    console: Console,
    name: str,
    only: list[str],
    mpi: list[str],
    json_file: Path | None,
    plot_file: Path | None,
    library: Path | None,
) -> None:
    """Runs the cases for the emulated node `name` under one MPI; shows and stores the results."""
    root = _checkout()
    if name not in emulated_nodes.names(root):
        found = ", ".join(emulated_nodes.names(root))
        say.fail(f"there is no model {name}; choose one of {found}", say.USAGE)
    library = library or emulated.library_of(root)
    if not library.exists():
        say.fail(
            f"{library} is missing; to build it: cmake -S . -B build-emulate -G Ninja "
            "-DMH_EMULATE=ON -DMH_TESTS=OFF && cmake --build build-emulate"
        )
    here = host.describe()
    model = emulated_nodes.load(root, name)
    given = emulated.Conditions(model, _builds(mpi)[0], here, root, library)
    try:
        todo = emulated.steps(emulated_cases.series_of(model, only))
    except ValueError as error:
        say.fail(str(error), say.USAGE)
    with _progress(console) as progress:
        task = progress.add_task("", total=len(todo))

        def advance(text: str) -> None:
            progress.update(task, description=text, advance=1, refresh=True)

        results, errors = emulated.run_all(todo, given, advance)
    report = {
        "what": emulated_results.WHAT,
        "emulated": True,
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "model": {"name": name, **model.data},
        "machine": dataclasses.asdict(here),
        "mpi": given.build.name,
        "records": results,
        "errors": errors,
    }
    if json_file is not None:
        with writing(json_file):
            json_file.write_text(emulated_results.as_text(report))
        console.print(f"wrote {json_file}", soft_wrap=True)
    emulated_show.report(console, report)
    if plot_file is not None:
        with writing(plot_file):
            emulated_show.draw(plot_file, report)
    if errors:
        raise typer.Exit(1)


def _list(console: Console) -> None:
    here = host.describe()
    for case in CASES:
        obstacle = case.obstacle(here, oversubscribe=False)
        short = "short" if case.short else ""
        note = f"\n{'':31}[dim]cannot run here: {obstacle}[/dim]" if obstacle else ""
        console.print(f"{case.name:24}{short:7}{case.title}{note}")


def _stored(file: Path) -> dict:
    try:
        report = json.loads(file.read_text())
    except ValueError:
        report = None
    if not isinstance(report, dict) or "records" not in report:
        say.fail(f"{file} has no results: name a file that `mh bench --json` wrote", say.USAGE)
    return report


def _console() -> Console:
    """A console of 100 columns, which the tables need, on any terminal and in files."""
    return Console(width=COLUMNS, highlight=False)


def _checkout() -> Path:
    root = installation.checkout()
    if root is None:
        say.fail("mh bench compiles its programs from source: run it from the mh of a checkout")
    return root


def _cases(only: list[str], short: bool) -> list[Case]:
    try:
        return select(only, short)
    except ValueError as error:
        say.fail(str(error), say.USAGE)


def _builds(wanted: list[str]) -> list[mpis.MpiBuild]:
    found = mpis.find_builds(_checkout())
    missing = [name for name in wanted if name not in found]
    if missing or not found:
        have = ", ".join(found) or "none"
        names = ", ".join(missing) or "any build"
        say.fail(f"found no MPI compiler and launcher for {names}; installed: {have}", say.USAGE)
    return [found[name] for name in wanted] if wanted else list(found.values())


def _measure(
    console: Console,
    cases: list[Case],
    builds: list[mpis.MpiBuild],
    rounds: int,
    rest: float,
    library: Path | None,
    oversubscribe: bool,
) -> dict[str, Any]:
    here = host.describe()
    load = host.load_average()
    if load > QUIET_LOAD:
        console.print(
            f"[yellow]load average is {load:.1f}: other programs are running; ratios will vary[/]"
        )
    if rounds < MIN_ROUNDS:
        console.print(
            f"[yellow]the ranges need at least {MIN_ROUNDS} rounds; --rounds is {rounds}[/]"
        )
    runnable = []
    for case in cases:
        obstacle = case.obstacle(here, oversubscribe)
        if obstacle:
            console.print(f"[dim]{case.name} cannot run here: {obstacle}[/dim]")
        else:
            runnable.append(case)
    started = time.monotonic()
    records: list[Record] = []
    with _progress(console) as progress:
        task = progress.add_task("", total=None)

        def advance() -> None:
            progress.advance(task)
            progress.refresh()

        def say_left_out(text: str) -> None:
            progress.console.print(f"[dim]{text}[/dim]", soft_wrap=True)

        given = runs.Conditions(
            here, _checkout(), library, rounds, rest, oversubscribe, say_left_out, advance
        )
        todo = [
            (case, build, runs.variants(case, build, given))
            for build in (*builds, mpis.SIMULATED)
            for case in runnable
            if case.simulated == (build is mpis.SIMULATED)
        ]
        total = sum(runs.launches(case, len(chosen), rounds) for case, _, chosen in todo)
        progress.update(task, total=total)
        for case, build, chosen in todo:
            progress.update(task, description=f"{build.name} {case.name}", refresh=True)
            try:
                records += runs.run_case(case, build, chosen, given)
            except launch.LaunchError as error:
                say.fail(str(error))
    return {
        "what": "mh bench",
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": dataclasses.asdict(here),
        "load_before": load,
        "control": library is None,
        "records": records,
        "seconds": round(time.monotonic() - started, 1),
    }


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("launches, time left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        auto_refresh=False,  # a timer that draws ten times a second takes a core from the ranks
    )


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Example: **mh bench --short --compare --json results.json --plot speedup.png**",
    )(bench)
