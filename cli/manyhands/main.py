# SPDX-License-Identifier: BSD-3-Clause
"""The program `mh`: gathers the commands of commands/ into a Typer application.

`mh run` without options of its own starts the program directly, because importing Typer and the
other commands would take longer than that start.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import TYPE_CHECKING

from manyhands_unix import streams
from manyhands_unix.endings import catch_endings

from manyhands import __version__, commands, say, starting

if TYPE_CHECKING:
    import typer


def application(wanted: str | None) -> typer.Typer:
    """The application with all commands, or with the wanted command only."""
    import typer

    app = typer.Typer(
        name="mh",
        no_args_is_help=True,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )

    def print_version(asked: bool) -> None:
        if asked:
            print(f"mh {__version__}")
            raise typer.Exit()

    @app.callback(
        epilog="Example: **mh run -n 8 ./app**. Each command explains itself with --help.",
    )
    def root(
        version: bool = typer.Option(
            False,
            "--version",
            callback=print_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ) -> None:
        """Manyhands: MPI ranks that work while they wait."""

    names = sorted(info.name for info in pkgutil.iter_modules(commands.__path__))
    for module in [wanted] if wanted in names else names:
        importlib.import_module(f"manyhands.commands.{module}").register(app)
    return app


def dispatch() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else None
    if wanted == "run" and starting.start_at_once(sys.argv[2:]):
        return
    application(wanted)(prog_name="mh")


def main() -> None:
    streams.prepare()
    catch_endings()
    try:
        dispatch()
    except KeyboardInterrupt:
        sys.exit(say.INTERRUPTED)
    except OSError as error:  # a full disk, a folder that is gone
        where = f"{error.filename}: " if error.filename else ""
        say.fail(f"{where}{error.strerror or error}")
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    main()
