# SPDX-License-Identifier: BSD-3-Clause
"""The output files of a command. A file that cannot be written is refused at the start.

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
    """Check an option that names a file; complain if the file cannot be written."""
    if file is None:
        return None
    if file.is_dir():
        raise typer.BadParameter(f"{file} is a directory: name a file")
    if not file.parent.is_dir():
        raise typer.BadParameter(f"there is no directory {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise typer.BadParameter(f"{file} cannot be written")
    return file


@contextlib.contextmanager
def writing(file: Path, advice: str = "") -> Iterator[None]:
    """A context for code that writes this file, or files in this folder: errors end the command."""
    try:
        yield
    except OSError as error:
        say.fail(f"cannot write {error.filename or file}: {error.strerror}{advice}")
