# SPDX-License-Identifier: BSD-3-Clause
"""Files that a command writes at its end. An unwritable file is refused at the beginning."""

from __future__ import annotations

import os
from pathlib import Path

import typer


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
