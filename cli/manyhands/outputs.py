# SPDX-License-Identifier: BSD-3-Clause
"""Files a command writes at its end: refused at its beginning where they cannot be written.

What goes wrong later, such as a full disk, ends the command with a sentence.
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
    """Around all that writes this file, or files in this folder."""
    try:
        yield
    except OSError as error:
        say.fail(f"cannot write {error.filename or file}: {error.strerror}{advice}")
