# SPDX-License-Identifier: BSD-3-Clause
"""Compiles programs and computes references once for all tests that run in parallel.

A program is compiled again if a source is newer. Concurrent callers wait for the lock beside the
program, so every caller sees a complete program.
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
    """Returns the program, compiled by `command(name)` under a temporary name."""
    if _is_new(program, sources):
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with program.with_name(f".{program.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_new(program, sources):
            return program
        fresh = program.with_name(f"{program.name}.{os.getpid()}")
        words = command(fresh)
        # gfortran writes its modules into the working directory, here the folder of the program.
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=limit_s, cwd=program.parent
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stderr}"
        fresh.replace(program)
    return program


def found_once(file: Path, find: Callable[[], str]) -> str:
    """Returns the result of `find`, which only the first caller calls; `file` stores the result."""
    with file.with_name(f".{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_text(find())
    return file.read_text()
