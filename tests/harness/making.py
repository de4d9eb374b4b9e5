# SPDX-License-Identifier: BSD-3-Clause
"""Programs are compiled, and references found, once for all tests that run side by side.

A program is made again when something it is made of is newer. Who comes while it is made waits for
the lock beside it, and nobody sees half a program.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path


def _is_new(program: Path, sources: Iterable[Path]) -> bool:
    if not program.exists():
        return False
    return program.stat().st_mtime >= max(source.stat().st_mtime for source in sources)


def made(
    program: Path, sources: list[Path], command: Callable[[Path], list[str]], limit_s: float
) -> Path:
    """The program; `command` says how to make it under a name."""
    if _is_new(program, sources):
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with program.with_name(f".{program.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_new(program, sources):
            return program
        fresh = program.with_name(f"{program.name}.{os.getpid()}")
        words = command(fresh)
        # In the program's folder, where gfortran leaves its modules.
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=limit_s, cwd=program.parent
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stderr}"
        fresh.replace(program)
    return program


def found_once(file: Path, find: Callable[[], str]) -> str:
    """What `find` said to the first who asked; a file of this name keeps it for the others."""
    with file.with_name(f".{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_text(find())
    return file.read_text()
