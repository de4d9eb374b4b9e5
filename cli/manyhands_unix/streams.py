# SPDX-License-Identifier: BSD-3-Clause
"""The three standard streams, which may be closed, full, or a pipe without a reader.

A command that cannot write its output reports the reason in one sentence and ends with FAILURE. A
command whose output pipe has no reader ends silently with the status of SIGPIPE. In both cases the
stack unwinds, so launchers end first. A message that cannot be written to standard error is
dropped. A program that replaces the command (exec) finds closed streams closed; a launcher finds
/dev/null in their place.
"""

from __future__ import annotations

import io
import os
import sys
from typing import IO, Any

FAILURE = 1
PIPE_CLOSED = 128 + 13  # the status that a shell reports for SIGPIPE
INPUT, OUTPUT, ERRORS = 0, 1, 2

closed: list[int] = []  # numbers of the streams that the user closed


class Sink(io.FileIO):
    """A descriptor for writing that drops everything after its first failure."""

    failed = False

    def write(self, data: Any) -> int:
        if not self.failed:
            try:
                return super().write(data)
            except OSError as error:
                self.failed = True
                self.on_failure(error)
        return memoryview(data).nbytes

    def on_failure(self, error: OSError) -> None:
        """A hook that the first failure calls; this class does nothing in it."""


class Output(Sink):
    def on_failure(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError):
            sys.exit(PIPE_CLOSED)
        print(f"manyhands: cannot write the output: {error.strerror}", file=sys.stderr)
        sys.exit(FAILURE)


def open_what_is_closed() -> None:
    """Opens closed streams on /dev/null, so that no file opened later becomes a standard stream.
    The opposite mode (write for input, read for output) makes each use of such a stream an error.
    """
    for number, mode in ((INPUT, os.O_WRONLY), (OUTPUT, os.O_RDONLY), (ERRORS, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode | os.O_CLOEXEC)  # the lowest descriptor that is free
            closed.append(number)


def open_for_launcher() -> None:
    """Opens closed streams on /dev/null in their own mode: a launcher hands its streams on to its
    ranks, and Hydra's launcher starts no ranks if a stream is closed.
    """
    for number in closed:
        null = os.open(os.devnull, os.O_RDONLY if number == INPUT else os.O_WRONLY)
        os.dup2(null, number)
        os.close(null)


def writer(sink: Sink, before: IO[str] | None, line_by_line: bool) -> io.TextIOWrapper:
    encoding = getattr(before, "encoding", None) or "utf-8"
    # File names are bytes that need not be valid text.
    errors = "surrogateescape" if encoding.lower().startswith("utf") else "replace"
    buffer = io.BufferedWriter(sink)
    return io.TextIOWrapper(buffer, encoding, errors, line_buffering=line_by_line)


def prepare() -> None:
    """Prepares the standard streams. Call it before anything is opened or written."""
    open_what_is_closed()
    if sys.stdin is None:
        sys.stdin = open(INPUT, closefd=False)  # noqa: SIM115
    output, errors = (Output(OUTPUT, "w", closefd=False), Sink(ERRORS, "w", closefd=False))
    sys.stdout = writer(output, sys.stdout, line_by_line=output.isatty())
    sys.stderr = writer(errors, sys.stderr, line_by_line=True)
