# SPDX-License-Identifier: BSD-3-Clause
"""The timeline of a rank: the segments of its calls and of its help, merged to a given number.

A merged segment reaches from the start of its first event to the end of its last event. Its
transfer and waiting times are the sums over its events.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from manyhands.trace.files import Event

CALLS = ("call", "brief_calls")
HELP = ("helped", "lent", "task")
LOOPS = ("loop",)


@dataclass(slots=True)
class Segment:
    begin: float
    end: float
    name: str  # of the call or the kind of help; "" for several
    transfer: float = 0.0
    waiting: float = 0.0
    peer: int | None = None
    bytes: int = 0
    count: int = 1
    rank: int | None = None

    def absorb(self, later: Segment) -> None:
        self.end = max(self.end, later.end)
        self.transfer += later.transfer
        self.waiting += later.waiting
        self.bytes += later.bytes
        self.count += later.count
        self.name = self.name if self.name == later.name else ""
        self.peer = self.peer if self.peer == later.peer else None
        self.rank = self.rank if self.rank == later.rank else None


def merged(segments: list[Segment], most: int) -> list[Segment]:
    """Merges segments across the smallest gaps between them, until at most `most` are left."""
    if len(segments) <= most:
        return segments
    gaps = [b.begin - a.end for a, b in zip(segments, segments[1:], strict=False)]
    widest = sorted(range(len(gaps)), key=gaps.__getitem__, reverse=True)
    kept = set(widest[: max(0, most - 1)])
    result = [segments[0]]
    for index, segment in enumerate(segments[1:]):
        if index in kept:
            result.append(segment)
        else:
            result[-1].absorb(segment)
    return result


def segment_of(event: Event, rank: int, name: str, transfer: float) -> Segment:
    end = event.begin + event.extent
    return Segment(
        event.begin, end, name, transfer, event.waiting, event.peer, event.bytes, event.count, rank
    )


@dataclass
class Lane:
    calls: list[Segment] = field(default_factory=list)
    help: list[Segment] = field(default_factory=list)
    loops: list[Segment] = field(default_factory=list)

    def add(self, event: Event, rank: int) -> None:
        if event.kind in CALLS:
            self.calls.append(segment_of(event, rank, event.call, event.transfer))
        elif event.kind in HELP:
            self.help.append(segment_of(event, rank, event.kind, event.extent))
        elif event.kind in LOOPS:
            self.loops.append(segment_of(event, rank, event.kind, 0.0))

    def reduce(self, most: int) -> None:
        """Reduces the segments to `most`: a half for calls, a third for help, a sixth for loops."""
        for name, part in (("calls", 2), ("help", 3), ("loops", 6)):
            segments = sorted(getattr(self, name), key=lambda segment: segment.begin)
            setattr(self, name, merged(segments, max(1, most // part)))
