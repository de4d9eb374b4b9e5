# SPDX-License-Identifier: BSD-3-Clause
"""The tune file of a host: lines `MH_KEY = value`, which the environment overrides.

Only the given keys are written; other lines of an existing file stay. The file is replaced by a
rename, so a program that starts meanwhile reads either the old or the new file.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

_KEY = re.compile(r"^\s*(MH_[A-Z_]+)\s*=")


def merged(old: str, settings: dict[str, str], heading: str) -> str:
    """`old` with these settings replaced; a new file begins with `heading`."""
    kept = [line for line in old.splitlines() if not _sets(line, settings)]
    lines = kept or [f"# {heading}"]
    return "\n".join([*lines, *(f"{key} = {value}" for key, value in settings.items())]) + "\n"


def _sets(line: str, settings: dict[str, str]) -> bool:
    found = _KEY.match(line)
    return found is not None and found.group(1) in settings


def write(path: Path, settings: dict[str, str], heading: str) -> None:
    """Writes the settings into a tune file. Raises OSError on failure, and leaves an existing file
    unchanged then.
    """
    if path.exists() and not path.is_file():  # a pipe, a device: written, never replaced
        path.write_text(merged("", settings, heading))
        return
    # Bytes that are no UTF-8 come through unchanged.
    old = path.read_text(errors="surrogateescape") if path.exists() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, delete=False, errors="surrogateescape"
    ) as fresh:
        try:
            fresh.write(merged(old, settings, heading))
            fresh.flush()
            os.chmod(fresh.name, 0o644)
            os.replace(fresh.name, path)
        except BaseException:
            os.unlink(fresh.name)
            raise
