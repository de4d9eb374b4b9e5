# SPDX-License-Identifier: BSD-3-Clause
"""`mh report`: a report on a traced run as a page for the browser, or as data for other
programs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TextIO

import typer

from manyhands import say
from manyhands.outputs import writable, writing
from manyhands.trace import export, page
from manyhands.trace.files import NotATrace
from manyhands.trace.run import Run, read

FILE = Path("mh-report.html")


class Format(str, Enum):
    html = "html"
    chrome = "chrome"
    csv = "csv"
    json = "json"


def _write_json(runs: list[Run], out: TextIO) -> None:
    whole = [export.as_json(run) for run in runs]
    json.dump(whole[0] if len(whole) == 1 else whole, out, indent=1)
    out.write("\n")


def _writer(format: Format, folders: list[Path]) -> Callable[[TextIO], None]:
    """Returns the function that writes the run, or the two runs, in the chosen format."""
    if format is Format.chrome:
        return lambda out: export.write_chrome(folders[0], out)
    if format is Format.csv:
        return lambda out: export.write_csv(folders[0], out)
    runs = [read(folder) for folder in folders]
    if format is Format.json:
        return lambda out: _write_json(runs, out)
    return lambda out: print(page.html(runs), end="", file=out)


def _write(format: Format, folders: list[Path], output: Path | None) -> None:
    write = _writer(format, folders)
    if output is None and format is not Format.html:
        write(sys.stdout)
        return
    file = output or FILE
    with writing(file), file.open("w") as out:
        write(out)
    say.note(f"written: {file}")


def report(
    folder: Path = typer.Argument(
        help="Folder with the trace, as named by MH_TRACE.", show_default=False
    ),
    after: Path | None = typer.Argument(
        None, help="Folder of a second run to compare with the first.", show_default=False
    ),
    output: Path | None = typer.Option(
        None,
        "-o",
        "--output",
        help=f"Output file. Default: {FILE} for html, else standard output.",
        callback=writable,
    ),
    format: Format = typer.Option(
        Format.html, help="Output format: html, chrome (for Perfetto), csv (events) or json (sums)."
    ),
) -> None:
    """Report on a traced run: where the time went, who helped whom, and what can help.

    Run the program with MH_TRACE=FOLDER first. The page needs no network. The report of a job that
    was killed or still runs ends where its trace ends.
    """
    if after is not None and format in (Format.chrome, Format.csv):
        say.fail(f"--format {format.value} takes one run, not two", say.USAGE)
    folders = [folder] if after is None else [folder, after]
    try:
        _write(format, folders, output)
    except NotATrace as reason:
        say.fail(f"{reason}; to write a trace: MH_TRACE=FOLDER mh run ...")


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Example: **MH_TRACE=t mh run -n 4 ./app; mh report t**",
    )(report)
