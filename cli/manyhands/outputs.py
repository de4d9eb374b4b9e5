# SPDX-License-Identifier: BSD-3-Clause
"""Files a command writes at its end: refused at its beginning where they cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

import typer


def writable(file: Path | None) -> Path | None:
    """For an option that names a file; a message of the option where its place will not do."""
    if file is None:
        return None
    if file.is_dir():
        raise typer.BadParameter(f"{file} is a directory: name a file")
    if not file.parent.is_dir():
        raise typer.BadParameter(f"there is no directory {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise typer.BadParameter(f"{file} cannot be written")
    return file
