# SPDX-License-Identifier: BSD-3-Clause
"""Launches that run at the same time and take turns, batch by batch (bench/mpi/turns.h).

A machine changes its speed within seconds, so times of successive launches differ by more than the
effect to be measured. Batches that take turns meet the same states of the machine.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from manyhands_unix.endings import end_session


@dataclass
class Ring:
    """A ring of launches; each passes the turn on to the next. Any thread may call the methods."""

    folder: Path
    count: int
    _processes: list[subprocess.Popen[str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: bool = False

    def join(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._processes.append(process)
            ended = self._ended
        if ended:
            end_session(process)

    def end(self) -> None:
        """End all launches. Called if a launch has failed, since the others would wait for their
        turns forever.
        """
        with self._lock:
            self._ended = True
            processes = list(self._processes)
        for process in processes:
            if process.poll() is None:
                end_session(process)


@dataclass(frozen=True)
class Place:
    """The place of a launch in the ring."""

    ring: Ring
    index: int

    @property
    def environment(self) -> dict[str, str]:
        """The environment variable by which the launch's ranks find their pipes."""
        own, following = self.index, (self.index + 1) % self.ring.count
        return {"BENCH_TURN": ",".join(str(self.ring.folder / str(i)) for i in (own, following))}


@contextlib.contextmanager
def ring(count: int, ranks: int) -> Iterator[Ring]:
    with contextlib.ExitStack() as kept:
        prefix = f"mh-turns-{os.getpid()}-"
        folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix=prefix)))
        for place in range(count):
            for rank in range(ranks):
                path = folder / f"{place}.{rank}"
                os.mkfifo(path)
                # This process opens each pipe for reading and writing, and closes it after the last
                # launch. Therefore no rank blocks in open(), and the launch that ends last can
                # write its turn to the next launch's pipe although that launch has ended.
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                kept.callback(os.close, fd)
                if place == 0:
                    os.write(fd, b"t")
        yield Ring(folder, count)
