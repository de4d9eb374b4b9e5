# SPDX-License-Identifier: BSD-3-Clause
"""`mh demo`: a stencil program, plain and helped in turn, with its results compared bit for bit.

Exit status: 0 if all results are equal, with or without a gain; 1 if results differ or a run
failed; 2 for a wrong command line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from manyhands import installation, say
from manyhands.outputs import writable, writing

ROUNDS = 10  # many short rounds: a busy moment of the machine affects few of them
SECONDS = 0.5


def demo(
    ranks: Annotated[
        int | None,
        typer.Option("-n", "--ranks", min=2, help="Number of ranks. Default: one for each core."),
    ] = None,
    mpi: Annotated[
        str | None,
        typer.Option(
            help="MPI to run under: an installation prefix, an mpicc, or mpich4, openmpi4, mpich5, "
            "openmpi5, abi. Default: the mpicc on the PATH, else the MPI of the checkout."
        ),
    ] = None,
    rounds: Annotated[
        int,
        typer.Option(min=1, help="Number of plain and of helped runs; fewer than 6 prove nothing."),
    ] = ROUNDS,
    seconds: Annotated[
        float, typer.Option(min=0.01, help="Seconds that the steps of one run take.")
    ] = SECONDS,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", callback=writable, help="Write all results to this file."),
    ] = None,
    control: Annotated[
        bool,
        typer.Option("--control", help="Compare plain with plain: the noise of this machine."),
    ] = False,
    library: Annotated[
        Path | None, typer.Option(help="Preload this library instead of the one built here.")
    ] = None,
) -> None:
    """Run a stencil with halo exchange plain and helped, and compare results and times."""
    from manyhands.demo.mpi import NoMpi
    from manyhands.demo.play import Wish, demonstrate
    from manyhands.demo.runs import RunError

    needs_none = "--control needs no library"
    preload = None if control else installation.needed_library(library, needs_none)
    wish = Wish(ranks, mpi, rounds, seconds, preload)
    try:
        report = demonstrate(wish, _source())
    except NoMpi as error:
        say.fail(str(error), say.USAGE)
    except RunError as error:
        say.fail(str(error))
    if json_file is not None:
        with writing(json_file):
            json_file.write_text(json.dumps(report, indent=1) + "\n")
    if not report["identical"]:
        say.fail(
            "results with and without Manyhands differ: please report this with the file of "
            "mh demo --json FILE"
        )


def _source() -> Path:
    root = installation.checkout()
    if root is None:
        say.fail("mh demo compiles the stencil from source: run it from the mh of a checkout")
    return root / "examples" / "stencil"


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: **mh demo -n 4 --mpi openmpi4**")(demo)
