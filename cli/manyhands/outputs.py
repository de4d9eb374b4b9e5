# SPDX-License-Identifier: BSD-3-Clause
"""The output files of a command. A file that cannot be written is refused when the command starts.

A later error, such as a full disk, ends the command with a message.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import typer

from manyhands import say


def writable(file: Path | None) -> Path | None:
    """Checks the value of an option that names an output file: ends the command if the file cannot
    be written.
    """
    if file is None:
        return None
    if file.is_dir():
        raise typer.BadParameter(f"{file} is a directory: name a file")
    if not file.parent.is_dir():
        raise typer.BadParameter(f"there is no directory {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise typer.BadParameter(f"{file} cannot be written")
    return file


def obstacle_to(folder: Path) -> str | None:
    """The reason why no file can be written in the folder; None: one can. A folder that does not
    exist is made later.
    """
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir():
        return f"{there} is not a directory"
    return None if os.access(there, os.W_OK | os.X_OK) else f"{there} cannot be written"


@contextlib.contextmanager
def writing(file: Path, advice: str = "") -> Iterator[None]:
    """A context for code that writes `file`, or files in the folder `file`: an OSError ends the
    command.
    """
    try:
        yield
    except OSError as error:
        say.fail(f"cannot write {error.filename or file}: {error.strerror}{advice}")
