# SPDX-License-Identifier: BSD-3-Clause
"""The live view of `mh top`: the table in the terminal's second screen, and keys to scroll and
leave.

The terminal is restored however the view ends. Ctrl-C is a key that leaves, and Ctrl-Z a key
without effect, because a signal could interrupt writing to the terminal.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import tty
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from manyhands.live import table
from manyhands.live.jobs import Job
from manyhands.live.reader import Ended, Interval, parse, watching

OTHER_LINES = 7  # lines of the table above and below the ranks
LOCAL_MODES = 3  # index in the list that tcgetattr() returns
LEAVE = (b"q", b"Q", b"\x03", b"\x04")
STEPS = {b"j": 1, b"\x1b[B": 1, b"k": -1, b"\x1b[A": -1}
PAGES = {b" ": 1, b"\x1b[6~": 1, b"b": -1, b"\x1b[5~": -1}


class Keys:
    """Reads single keys without echo; reads none if standard input is not a terminal."""

    def __init__(self) -> None:
        self.descriptor = sys.stdin.fileno() if sys.stdin.isatty() else None

    def __enter__(self) -> Keys:
        if self.descriptor is not None:
            self.before = termios.tcgetattr(self.descriptor)
            tty.setcbreak(self.descriptor)
            modes = termios.tcgetattr(self.descriptor)
            modes[LOCAL_MODES] &= ~termios.ISIG  # Ctrl-C and Ctrl-Z are keys, too
            termios.tcsetattr(self.descriptor, termios.TCSADRAIN, modes)
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self.descriptor is not None:
            termios.tcsetattr(self.descriptor, termios.TCSADRAIN, self.before)

    def pressed(self) -> bytes:
        """The key that has been pressed. The end of the input counts as the key that leaves."""
        return os.read(self.descriptor, 16) or LEAVE[0] if self.descriptor is not None else b""


class View:
    """The last interval of the job, and the first visible rank."""

    def __init__(self, job: Job, console: Console) -> None:
        self.job = job
        self.console = console
        self.interval: Interval | None = None
        self.first = 0

    def _rows(self) -> int:
        return max(1, self.console.size.height - OTHER_LINES)

    def press(self, key: bytes) -> None:
        self.first += STEPS.get(key, 0) + PAGES.get(key, 0) * self._rows()

    def drawn(self) -> RenderableType:
        if self.interval is None:
            return Text(f"{self.job.program}\nwaiting for the first numbers ...")
        ranks = self.interval["ranks"]
        self.first = max(0, min(self.first, len(ranks) - self._rows()))
        seen = ranks[self.first : self.first + self._rows()]
        where = "q quits"
        if len(seen) < len(ranks):
            last = self.first + len(seen)
            where += f", arrows scroll: {self.first + 1} to {last} of {len(ranks)}"
        return Group(
            table.header(self.job, self.interval),
            table.ranks_table(seen),
            Text(f"\n{where}", style="dim", end=""),
        )


class Lines:
    """Reads whole lines from a descriptor that select() has found readable."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.rest = b""

    def read(self) -> list[str]:
        """The lines that have arrived. The end of the stream reads as the end of the job."""
        got = os.read(self.descriptor, 1 << 16)
        if not got:
            return ['{"ended": "mh-top ended unexpectedly"}']
        *lines, self.rest = (self.rest + got).split(b"\n")
        return [line.decode() for line in lines]


def _follow(view: View, live: Live, keys: Keys, lines: Lines) -> str | None:
    """Shows intervals until the user leaves (returns None) or the job ends (returns the reason)."""
    sources = [source for source in (lines.descriptor, keys.descriptor) if source is not None]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if keys.descriptor in ready:
            key = keys.pressed()
            if key in LEAVE:
                return None
            view.press(key)
        for line in lines.read() if lines.descriptor in ready else ():
            news = parse(line)
            if isinstance(news, Ended):
                return news.why
            view.interval = news
        live.update(view.drawn(), refresh=True)


def show(reader: Path, job: Job, interval_s: float) -> str | None:
    """Shows the job until the user leaves (returns None) or the job ends (returns the reason)."""
    console = Console(highlight=False)
    view = View(job, console)
    with (
        contextlib.suppress(KeyboardInterrupt),
        Keys() as keys,
        watching(reader, job, interval_s) as stream,
        Live(view.drawn(), console=console, screen=True, auto_refresh=False) as live,
    ):
        return _follow(view, live, keys, Lines(stream.fileno()))
    return None
