# SPDX-License-Identifier: BSD-3-Clause
"""`mh profile`: run a program and show its time in MPI, as transfer and as waiting."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import typer
from manyhands_unix import endings
from typer.core import TyperCommand

from manyhands import say, starting, words
from manyhands.outputs import writable
from manyhands.profiling import record
from manyhands.profiling.show import console, show

FILE = Path("mh-profile.json")


class ProfileCommand(TyperCommand):
    """Splits the command line itself: Typer parses only the options of `mh profile`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = words.split(args, words.PROFILE_OPTIONS)
        return super().parse_args(ctx, ctx.obj.own)


def _read(path: Path) -> record.Profile:
    try:
        return record.read(path)
    except record.NotAProfile as reason:
        say.fail(f"{path} is not a profile: {reason}")


def _run(line: words.CommandLine, mpiexec: str | None, plain: bool, file: Path) -> int:
    if starting.is_rank_and_no_shell() or starting.starts_alone(line, mpiexec):
        say.fail(
            f"mh profile starts all ranks itself. Under another launcher, run the program with "
            f"MH_PROFILE={file}, and then: mh profile --from {file}",
            say.USAGE,
        )
    if not line.program:
        say.fail("no program given: mh profile -n 2 ./app (see mh profile --help)", say.USAGE)
    writable(file)
    chosen = {"MH_PROFILE": str(file.resolve()), "MH_SUMMARY": os.environ.get("MH_SUMMARY", "0")}
    if plain:
        chosen["MH_ENABLE"] = "0"
    command, _ = starting.command_of(line, mpiexec, chosen)
    file.unlink(missing_ok=True)
    status = _wait_for(command)
    return status if status >= 0 else 128 - status


def _wait_for(command: list[str]) -> int:
    """Runs the launcher to its end. Signals to `mh` go to the launcher, so that the program can end
    cleanly and write the profile.
    """
    launched: list[subprocess.Popen[bytes]] = []
    early: list[int] = []  # signals that came before the launcher

    def pass_on(number: int, _frame: object) -> None:
        if launched:
            launched[0].send_signal(number)
        else:
            early.append(number)

    for number in endings.ENDINGS:
        signal.signal(number, pass_on)
    # The terminal sends SIGINT to the launcher as well. SIG_IGN would be the launcher's, too.
    signal.signal(signal.SIGINT, lambda *_: None)
    launched.append(subprocess.Popen(command))
    for number in early:
        launched[0].send_signal(number)
    return launched[0].wait()


def profile(
    ctx: typer.Context,
    mpiexec: str | None = typer.Option(
        None, help="Launcher to use instead of the launcher of the program's MPI."
    ),
    plain: bool = typer.Option(
        False, "--plain", help="Profile the program without help (MH_ENABLE=0)."
    ),
    json: Path = typer.Option(FILE, help="Write the profile to this file."),
    stored: Path | None = typer.Option(
        None, "--from", help="Show a stored profile; run nothing.", exists=True, dir_okay=False
    ),
    top: int = typer.Option(14, min=1, help="Number of rows in the table of calls."),
) -> None:
    """Profile an MPI program: its time in MPI by call and size, and who waits for whom.

    *Transfer* is the time in a call while all ranks that the call depends on are in MPI. Faster
    copies shorten it. *Waiting* is the time in a call while one of these ranks is not in MPI yet.
    Other ranks shorten it if they share the work of that rank. Options that are not listed here go
    to the launcher, as with `mh run`.
    """
    if stored is not None:
        show(_read(stored), console(), top)
        return
    status = _run(ctx.obj, mpiexec, plain, json)
    if not json.exists():
        say.note(
            "the run wrote no profile: no rank called MPI_Finalize with the library preloaded; "
            "mh doctor PROGRAM shows whether it can be preloaded"
        )
        raise typer.Exit(status or say.FAILURE)
    show(_read(json), console(), top)
    say.note(f"stored as {json}; to show it again: mh profile --from {json}")
    raise typer.Exit(status)


def register(app: typer.Typer) -> None:
    app.command(
        cls=ProfileCommand,
        context_settings={"help_option_names": ["--help"]},
        epilog="Example: **mh profile -n 2 ./app input.txt**",
        options_metavar="[OPTIONS] [LAUNCHER OPTIONS] -n N [--] PROGRAM [ARGUMENTS]...",
    )(profile)
