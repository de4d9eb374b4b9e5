# SPDX-License-Identifier: BSD-3-Clause
"""Reads the files of a trace, which src/observe/trace.hpp writes. docs/trace.md has the format.

The file of a rank that was killed, or that still runs, is read as far as it has been written.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

VERSION = 1
MAGIC = b"MHTRACE\0"
HEADER_BYTES = 4096
HEADER = struct.Struct("<8s I I Q Q 4I d Q Q 64s")
END_AT, EVENTS_AT, TOTALS_AT = 192, 256, 320
TOTAL = struct.Struct("<6Q")
SLOT = struct.Struct("<5Q 2I H B B I Q")

KINDS = tuple(  # EventKind of trace.hpp
    "none call brief_calls sent copied left helped lent on_lent_core loop task".split()
)
PATHS = ("mapped", "kernel", "cells", "pushed", "library")  # MessagePath
REASONS = ("exchanged", "no_slot", "ended")  # LeftBecause
WAYS = ("", "by_ranks", "by_library")  # CollectiveWay
DETAILS = {"copied": PATHS, "left": REASONS, "call": WAYS}
NO_PEER = 0xFFFFFFFF
NO_CALL = 0xFFFF
SUFFIX = ".mhtrace"


class NotATrace(Exception):
    """The file or folder cannot be read as a trace; the text says why."""


@dataclass(frozen=True)
class Total:
    """The sums over all events of a kind, including events that were overwritten."""

    events: int = 0
    count: int = 0
    bytes: int = 0
    extent_s: float = 0.0
    transfer_s: float = 0.0
    waiting_s: float = 0.0


class Event(NamedTuple):
    """An event of a rank. Times are in seconds since the start of the MPI job."""

    begin: float
    extent: float
    transfer: float
    waiting: float
    bytes: int
    peer: int | None
    count: int
    call: str
    kind: str
    detail: str
    cpu: int


def _word(table: tuple[str, ...], index: int) -> str:
    return table[index] if index < len(table) else str(index)


class RankFile:
    """The trace of one rank."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            try:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:  # an empty file
                raise NotATrace(f"{path} is empty") from error
        if len(self._data) < HEADER_BYTES or self._data[:8] != MAGIC:
            raise NotATrace(f"{path} is not a trace file")
        (_, version, names, self._at, self._capacity, self.rank, self.ranks, self.node, self.pid,
         self._rate, self.start_ticks, self.start_unix_ns, host) = HEADER.unpack_from(
            self._data
        )  # fmt: skip
        if version != VERSION:
            raise NotATrace(
                f"{path} has version {version} of the trace format; this mh reads version {VERSION}"
            )
        if len(self._data) < self._at + self._capacity * SLOT.size:
            raise NotATrace(f"{path} is truncated")
        self.host = host.rstrip(b"\0").decode(errors="replace")
        text = self._data[HEADER_BYTES : HEADER_BYTES + names].decode()
        self._names = tuple(text.splitlines())
        self._origin = self.start_ticks
        self._shift = 0.0

    def _number(self, at: int) -> int:
        return struct.unpack_from("<Q", self._data, at)[0]

    @property
    def written(self) -> int:
        """The number of events so far, including those that were overwritten."""
        return self._number(EVENTS_AT)

    @property
    def lost(self) -> int:
        """The number of events that were overwritten."""
        return max(0, self.written - self._capacity)

    @property
    def is_complete(self) -> bool:
        """True if the rank has reached MPI_Finalize."""
        return self._number(END_AT) != 0

    @property
    def end(self) -> float | None:
        ticks = self._number(END_AT)
        return self.time(ticks) if ticks else None

    @property
    def start(self) -> float:
        return self.time(self.start_ticks)

    def time(self, ticks: int) -> float:
        return self._shift + (ticks - self._origin) / self._rate

    def set_origin(self, first: RankFile, job_unix_ns: int) -> None:
        """Makes times count from the start of the MPI job. `first` is the file whose ticks and rate
        all files of this host use.
        """
        self._origin = first.start_ticks
        self._rate = first._rate
        self._shift = (first.start_unix_ns - job_unix_ns) / 1e9

    def total(self, kind: str) -> Total:
        at = TOTALS_AT + KINDS.index(kind) * TOTAL.size
        events, count, size, *times = TOTAL.unpack_from(self._data, at)
        return Total(events, count, size, *(each / self._rate for each in times))

    def call_name(self, index: int) -> str:
        return self._names[index] if index < len(self._names) else ""

    def events(self) -> Iterator[Event]:
        """The events that have not been overwritten, in the order of their ends."""
        written = self.written
        first = max(0, written - self._capacity)
        for index in range(first, written):
            place = self._at + index % self._capacity * SLOT.size
            (begin, extent, transfer, waiting, size, peer, count, call, kind, detail, cpu,
             number) = SLOT.unpack_from(self._data, place)  # fmt: skip
            if number != index + 1:  # the thread is writing the event, or was killed meanwhile
                continue
            name = _word(KINDS, kind)
            yield Event(
                self.time(begin),
                extent / self._rate,
                transfer / self._rate,
                waiting / self._rate,
                size,
                None if peer == NO_PEER else peer,
                count,
                self.call_name(call),
                name,
                _word(DETAILS[name], detail) if name in DETAILS else "",
                cpu,
            )


def _of_one_run(files: list[RankFile]) -> list[RankFile]:
    """The files of the last run, without those that an earlier run has left in the folder."""
    newest = max(files, key=lambda file: file.start_unix_ns)
    minute_ns = 60 * 10**9
    return [
        file
        for file in files
        if file.rank < newest.ranks and newest.start_unix_ns - file.start_unix_ns < minute_ns
    ]


def open_all(folder: Path) -> list[RankFile]:
    """The files of the last run in this folder, by rank. Their times count from the start of the
    job.
    """
    paths = sorted(folder.glob(f"rank-*{SUFFIX}"))
    if not paths:
        raise NotATrace(f"there is no file rank-*{SUFFIX} in {folder}")
    files = sorted(_of_one_run([RankFile(path) for path in paths]), key=lambda file: file.rank)
    start = min(file.start_unix_ns for file in files)
    first_of_host: dict[str, RankFile] = {}
    for file in files:
        file.set_origin(first_of_host.setdefault(file.host, file), start)
    return files
