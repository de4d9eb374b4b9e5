# SPDX-License-Identifier: BSD-3-Clause
"""`mh preload`: the libraries for a plain LD_PRELOAD, without the heap's if MH_HEAP=off."""

from __future__ import annotations

import typer

from manyhands import installation, say


def preload() -> None:
    """Print the libraries for LD_PRELOAD, separated by colons."""
    library = installation.library()
    if library is None:
        say.fail(installation.what_is_missing())
    print(":".join(map(str, installation.preloaded(library))))


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Example: **srun -n 8 env LD_PRELOAD=$(mh preload) ./app**",
    )(preload)
