# SPDX-License-Identifier: BSD-3-Clause
"""`mh tune`: measure this host and store threshold, chunk table and N_saturate for it."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Annotated

import typer
from manyhands_bench import host
from manyhands_bench.tables import size_text, time_text
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from manyhands import installation, say, settings
from manyhands.outputs import obstacle_to, writing
from manyhands.program import as_word
from manyhands.tuning import decide, file

COLUMNS = 100
BAR = 30
QUIET_LOAD = 0.5
PROGRAM = "mh-tune"
ADVICE = "; name another file with --output"


def tune(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Measure and show the results; store nothing.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Store the settings in this file instead of the host's own.")
    ] = None,
    program: Annotated[
        Path | None, typer.Option(help="Run this measuring program instead of the installed one.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure roughly, in a second; store nothing.")
    ] = False,
) -> None:
    """Measure copy speed on this host and store the settings that follow from it."""
    console = Console(width=COLUMNS, highlight=False)
    path = None if dry_run or quick else _place(output)
    load = host.load_average()
    if load > QUIET_LOAD:
        console.print(
            f"[yellow]load average is {load:.1f}: other programs are running; "
            "tune again when the machine is quiet[/]"
        )
    lines = _measured(console, program or _installed(), quick)
    _show(console, lines)
    chosen = decide.settings(lines)
    _store(console, chosen, path, is_own=output is None)


def _place(output: Path | None) -> Path:
    """The file for the settings. Ends the command if the file cannot be written."""
    path = output or settings.tune_file()
    if path is None:
        say.fail("neither HOME nor XDG_CONFIG_HOME is set: name a file with --output")
    reason = None if path.exists() and not path.is_file() else obstacle_to(path.parent)
    if path.is_dir():
        reason = "it is a directory"
    if reason is not None:
        say.fail(f"cannot write {path}: {reason}{ADVICE}")
    return path


def _installed() -> Path:
    found = installation.program(PROGRAM)
    if found is None:
        say.fail(f"the program {PROGRAM} is missing: {installation.how_to_get_programs()}")
    return found


def _measured(console: Console, program: Path, quick: bool) -> list[decide.Line]:
    """Runs the measuring program and returns all its lines; shows its progress meanwhile."""
    command = [as_word(program), *(["--quick"] if quick else [])]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        say.fail(f"cannot run {program}: {error.strerror}")
    lines: list[decide.Line] = []
    assert process.stdout is not None
    with process, _progress(console) as progress:
        task = progress.add_task("starting", total=None)
        for text in process.stdout:
            line = json.loads(text)
            lines.append(line)
            if line["kind"] == "plan":
                progress.update(task, total=line["lines"])
            else:
                progress.update(task, advance=1, description=line["kind"])
            progress.refresh()
    if process.returncode != 0:
        say.fail(
            f"{program} failed with exit code {process.returncode} before the last measurement"
        )
    return lines


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:12}"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} measurements"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        auto_refresh=False,  # drawing takes a core from the measured program
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for index, column in enumerate(columns):
        # The last column is a bar that begins at the left.
        table.add_column(column, justify="left" if index == len(columns) - 1 else "right")
    return table


def _bar(value: float, largest: float) -> str:
    """A bar whose length is exact to an eighth of a character; `largest` gives the full length."""
    eighths = round(8 * BAR * value / largest)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _show(console: Console, lines: list[decide.Line]) -> None:
    for line in lines:
        if line["kind"] == "refused":
            console.print(
                f"[yellow]a process cannot read another's memory here ({line['why']}), so there "
                "is no threshold and no chunk table; `mh doctor` says how to change that[/]"
            )
    copies = decide.copies(lines)
    if copies:
        console.print(_copy_table(copies))
    by_node = decide.saturation(lines)
    if by_node:
        console.print(_saturation_table(by_node, decide.saturation(lines, guests=1)))
    transfers = decide.transfers(lines)
    if transfers:
        console.print(_transfer_table(transfers))
    elif len(next(iter(by_node.values()), [])) < 2:
        console.print(
            "only one core: sharing a message takes two cores, so no message was measured"
        )


def _copy_table(copies: dict[str, dict[int, float]]) -> Table:
    table = _table("Copying 8 MB in chunks by one core, GB/s", "chunk", *copies, "(one end)")
    largest = max(rate for rates in copies.values() for rate in rates.values())
    for chunk in copies["own"]:
        rates = [copies[way].get(chunk) for way in copies]
        bar = _bar(copies.get("one end", copies["own"]).get(chunk, 0), largest)
        table.add_row(size_text(chunk), *("" if r is None else f"{r:.1f}" for r in rates), bar)
    return table


def _saturation_table(by_node: dict[int, list[float]], with_guest: dict[int, list[float]]) -> Table:
    guest = ["with a guest"] if with_guest else []
    table = _table(
        "Cores of a NUMA node that copy together (guest: a core of another node)",
        "NUMA node",
        "cores",
        "GB/s",
        *guest,
        "",
    )
    largest = max(max(rates) for rates in by_node.values())
    for numa, rates in by_node.items():
        for copiers, rate in enumerate(rates, start=1):
            beside = [f"{with_guest[numa][copiers - 1]:.1f}"] if with_guest else []
            bar = _bar(rate, largest)
            table.add_row(str(numa), str(copiers), f"{rate:.1f}", *beside, bar)
    return table


def _transfer_table(transfers: list[decide.Transfer]) -> Table:
    table = _table(
        "One message between two cores, copied by one core (plain) and by both (shared)",
        "size",
        "plain",
        "shared",
        "chunk",
        "gain",
        "",
    )
    largest = max(t.gain for t in transfers)
    for t in transfers:
        table.add_row(
            size_text(t.bytes),
            time_text(t.plain),
            time_text(t.best_shared),
            size_text(t.chunk),
            f"{t.gain:.2f}",
            _bar(t.gain, largest),
        )
    return table


def _store(console: Console, chosen: dict[str, str], path: Path | None, is_own: bool) -> None:
    """Stores the settings in the file. `is_own`: it is the host's own, which the library reads."""
    for key, value in chosen.items():
        console.print(f"{key} = {value}")
    missing = [key for key in ("MH_THRESHOLD", "MH_CHUNK", "MH_SATURATE") if key not in chosen]
    if missing:
        console.print(f"the measurements set no value, so defaults apply: {', '.join(missing)}")
    if path is None or not chosen:
        console.print("nothing was stored")
        return
    heading = f"Measured by mh tune on {time.strftime('%Y-%m-%d')}"
    with writing(path, ADVICE):
        file.write(path, chosen, heading)
    console.print(f"stored in {path}; to undo, delete that file", soft_wrap=True)
    if not is_own:
        console.print(f"to use it, run programs with MH_TUNE_FILE={path}", soft_wrap=True)


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: **mh tune --dry-run**")(tune)
