# SPDX-License-Identifier: BSD-3-Clause
"""`mh run`: start an MPI program with the library preloaded, by the launcher of its own MPI."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from manyhands import starting, words


class RunCommand(TyperCommand):
    """Splits the command line itself: Typer parses only the options of `mh run`, such as
    --mpiexec.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        line = words.split(args)
        ctx.obj = line
        return super().parse_args(ctx, line.own)


def run(
    ctx: typer.Context,
    mpiexec: str | None = typer.Option(
        None, help="Launcher to use instead of the launcher of the program's MPI."
    ),
    openmp_threads: str | None = typer.Option(
        None,
        metavar="N|auto",
        help="Share static OpenMP loops: OMP_NUM_THREADS=N and MH_OPENMP=static. auto: 16 for each "
        "core of this machine, at most 256.",
    ),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Print the command that would start the program and exit."
    ),
) -> None:
    """Run an MPI program so that waiting ranks help others.

    `mh run` uses the launcher of the MPI library that the program loads, and passes every option
    that is not listed here to the launcher unchanged. `--` marks the start of the program where it
    is ambiguous. Signals and the exit code are those of the launcher. Under another launcher
    (srun -n 8 mh run ./app), `mh run` starts only the program, once for each rank.
    """
    starting.start(ctx.obj, mpiexec, dry_run, openmp_threads)


def register(app: typer.Typer) -> None:
    app.command(
        cls=RunCommand,
        context_settings={"help_option_names": ["--help"]},
        epilog="Example: **mh run -n 8 --bind-to core ./app input.txt**",
        options_metavar="[OPTIONS] [LAUNCHER OPTIONS] -n N [--] PROGRAM [ARGUMENTS]...",
    )(run)
