# SPDX-License-Identifier: BSD-3-Clause
"""Runs compilers: passes text in and out, returns exit codes, and leaves nothing behind.

A compiler inherits the wrapper's standard error, so its messages appear unchanged. If Ctrl-C or a
signal ends the wrapper, it ends the compiler first and removes temporary files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple, NoReturn


class Result(NamedTuple):
    code: int
    out: bytes
    err: bytes


def become(command: list[str]) -> NoReturn:
    """Replaces this process by the compiler."""
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)
    except OSError as problem:
        print(f"cannot run {command[0]}: {problem.strerror}", file=sys.stderr)
        sys.exit(127)


def run(command: list[str], text: bytes | None = None, capture: bool = False) -> Result:
    """Runs a command to its end. `text` is its standard input; `capture` keeps its output."""
    pipe = subprocess.PIPE
    given = subprocess.DEVNULL if text is None else pipe
    kept = pipe if capture else None
    try:
        # The child inherits all file descriptors: under make, those of its job server are among
        # them, by which compilers share the cores.
        child = subprocess.Popen(command, stdin=given, stdout=kept, stderr=kept, close_fds=False)
    except OSError as problem:
        message = f"cannot run {command[0]}: {problem.strerror}\n"
        if not capture:
            print(message, end="", file=sys.stderr)
        return Result(127, b"", message.encode())
    try:
        out, err = child.communicate(text)
    except BaseException:
        child.terminate()
        child.wait()
        raise
    code = child.returncode
    return Result(128 - code if code < 0 else code, out or b"", err or b"")


class Workplace:
    """A folder for temporary files, made on first use. With `pretend` nothing is made."""

    def __init__(self, pretend: bool) -> None:
        self.pretend = pretend
        self.folder: str | None = "TEMPORARY" if pretend else None

    def __enter__(self) -> Workplace:
        return self

    def __exit__(self, *_: object) -> None:
        if self.folder is not None and not self.pretend:
            import shutil

            shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name: str) -> str:
        if self.folder is None:
            import tempfile

            self.folder = tempfile.mkdtemp(prefix="mhcc-")
        return os.path.join(self.folder, name)
