# SPDX-License-Identifier: BSD-3-Clause
"""`mh top`: a running job of this node, live: who waits, who helps whom, and rates."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NoReturn

import typer

from manyhands import installation, say
from manyhands.live import jobs
from manyhands.live.jobs import Job, Search
from manyhands.live.reader import Ended, once
from manyhands.units import time_text

PROGRAM = "mh-top"


def _installed() -> Path:
    found = installation.program(PROGRAM)
    if found is None:
        say.fail(f"the program {PROGRAM} is missing: {installation.how_to_get_programs()}")
    return found


def _none_found(search: Search) -> NoReturn:
    hidden = ""
    if search.unreadable:
        hidden = (
            f" (the kernel hides the file descriptors of {search.unreadable} of your processes)"
        )
    say.fail(
        f"none of your jobs on this node uses Manyhands{hidden}; start one: mh run -n 2 ./app. "
        "A job is visible between MPI_Init and MPI_Finalize"
    )


def _print_list(found: list[Job]) -> None:
    from manyhands.live.table import COLUMNS

    for job in found:
        launcher = f"{job.launcher_name} {job.launcher}" if job.launcher else "no launcher"
        size = "another version" if job.refused else f"{len(job.ranks)} ranks"
        facts = f"{job.pid:>8}  {launcher:<22} {size:<15} {time_text(job.age_s):<12} "
        print((facts + job.program)[:COLUMNS])


def _chosen(search: Search, word: str | None) -> Job:
    found = search.jobs
    if word is not None:
        found = [job for job in found if job.is_meant_by(word)]
        if not found:
            say.fail(jobs.why_not(word))
    if not found:
        _none_found(search)
    if len(found) > 1:
        _print_list(found)
        say.fail(
            "several jobs run: choose one by the first number of its line, mh top PID", say.USAGE
        )
    if found[0].refused is not None:
        say.fail(found[0].refused)
    return found[0]


def _print_once(reader: Path, job: Job, interval: float, as_json: bool) -> None:
    read = once(reader, job, interval)
    if isinstance(read, Ended):
        print(json.dumps({"ended": read.why})) if as_json else say.note(read.why)
        return
    if as_json:
        facts = {"program": job.program, "launcher": job.launcher, "job": job.batch_job}
        print(json.dumps({**read, **facts}, indent=1))
        return
    from rich.console import Console

    from manyhands.live import table

    Console(width=table.COLUMNS, highlight=False).print(table.whole(job, read))


def top(
    job: str | None = typer.Argument(
        None,
        metavar="[PID|JOB]",
        help="Process number of a rank or of the launcher, or number of the Slurm job.",
        show_default=False,
    ),
    one_table: bool = typer.Option(False, "--once", help="Print one table and exit."),
    as_json: bool = typer.Option(False, "--json", help="Print one table as JSON and exit."),
    interval: float = typer.Option(1.0, min=0.05, max=3600, help="Seconds between tables."),
) -> None:
    """Watch a running job on this node: who waits, who helps whom, and rates.

    Shows the ranks of one of your jobs. The argument is needed only if several of your jobs run.
    Press q to quit. Watching does not disturb the job.
    """
    reader = _installed()
    chosen = _chosen(jobs.find(reader), job)
    if one_table or as_json or not sys.stdout.isatty():
        _print_once(reader, chosen, interval, as_json)
        return
    from manyhands.live import screen

    why = screen.show(reader, chosen, interval)
    if why is not None:
        say.note(why)


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: **mh top**, in a second terminal while **mh run** runs")(top)
