# SPDX-License-Identifier: BSD-3-Clause
"""Writes trace files of given events, without the library that usually writes them."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from manyhands.trace.files import KINDS, NO_CALL, NO_PEER

TICKS_PER_S = 1e9
NAMES = ("MPI_Send", "MPI_Recv", "MPI_Allreduce")
START_UNIX_NS = 1_700_000_000 * 10**9
START_TICKS = 5_000_000_000
EVENTS_AT = 8192


def event(kind: str, begin_s: float, extent_s: float, **more: float) -> dict[str, float]:
    return {"kind": KINDS.index(kind), "begin_s": begin_s, "extent_s": extent_s, **more}


def call(begin_s: float, transfer_s: float, waiting_s: float, **more: float) -> dict[str, float]:
    times = {"transfer_s": transfer_s, "waiting_s": waiting_s, "call": 1}
    return event("call", begin_s, transfer_s + waiting_s, **{**times, **more})


def _ticks(seconds: float) -> int:
    return round(seconds * TICKS_PER_S)


def _words(each: dict[str, float]) -> tuple[list[int], list[int]]:
    """Returns an event's fields before its number, and its addends to the totals of its kind."""
    times = [_ticks(each.get(name, 0)) for name in ("extent_s", "transfer_s", "waiting_s")]
    size, count = int(each.get("bytes", 0)), int(each.get("count", 1))
    numbers = [START_TICKS + _ticks(each["begin_s"]), *times, size, int(each.get("peer", NO_PEER))]
    rest = [count, int(each.get("call", NO_CALL)), each["kind"], int(each.get("detail", 0))]
    return [*numbers, *rest, int(each.get("cpu", 0))], [1, count, size, *times]


def write_rank(
    folder: Path,
    rank: int,
    ranks: int,
    events: Iterable[dict[str, float]],
    end_s: float | None,
    capacity: int = 1024,
) -> Path:
    """Writes the trace file of a rank. `end_s` is None for a killed rank."""
    folder.mkdir(exist_ok=True)
    names = "".join(name + "\n" for name in NAMES).encode()
    ring = bytearray(capacity * 64)
    totals: dict[int, list[int]] = defaultdict(lambda: [0] * 6)
    written = 0
    for each in events:
        words, sums = _words(each)
        struct.pack_into("<5Q2IHBBIQ", ring, written % capacity * 64, *words, written + 1)
        totals[int(each["kind"])] = [
            a + b for a, b in zip(totals[int(each["kind"])], sums, strict=True)
        ]
        written += 1
    data = bytearray(EVENTS_AT)
    struct.pack_into(
        "<8sIIQQ4IdQQ64s", data, 0, b"MHTRACE", 1, len(names), EVENTS_AT, capacity, rank, ranks, 0,
        100 + rank, TICKS_PER_S, START_TICKS, START_UNIX_NS, b"host",
    )  # fmt: skip
    struct.pack_into("<Q", data, 192, 0 if end_s is None else START_TICKS + _ticks(end_s))
    struct.pack_into("<Q", data, 256, written)
    for kind, sums in totals.items():
        struct.pack_into("<6Q", data, 320 + kind * 48, *sums)
    data[4096 : 4096 + len(names)] = names
    path = folder / f"rank-{rank}.mhtrace"
    path.write_bytes(data + ring)
    return path
