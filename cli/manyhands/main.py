# SPDX-License-Identifier: BSD-3-Clause
"""The program `mh`: gathers the commands of commands/ into one Typer application."""

from __future__ import annotations

import importlib
import pkgutil

import typer

from manyhands import __version__, commands
from manyhands.endings import catch_endings

app = typer.Typer(
    name="mh",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"mh {__version__}")
        raise typer.Exit()


@app.callback(
    epilog="Example: **mh run -n 8 ./app**. Each command explains itself with --help.",
)
def root(
    version: bool = typer.Option(
        False, "--version", callback=print_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Manyhands: MPI ranks that work while they wait."""


def gather() -> None:
    for module in sorted(info.name for info in pkgutil.iter_modules(commands.__path__)):
        importlib.import_module(f"manyhands.commands.{module}").register(app)


def main() -> None:
    catch_endings()
    gather()
    app(prog_name="mh")


if __name__ == "__main__":
    main()
