# SPDX-License-Identifier: BSD-3-Clause
"""The timelines of the cores: which ranks were on a core, and what they did there.

A rank counts as present on the core of its last event until its next event on another core. A chunk
that a helper thread moves on a lent core does not move the rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from manyhands.trace.files import Event
from manyhands.trace.timeline import Lane, Segment, merged, segment_of

BORROWED = "on_lent_core"


@dataclass
class CoreLane(Lane):
    host: str = ""
    cpu: int = 0
    present: list[Segment] = field(default_factory=list)

    def add(self, event: Event, rank: int) -> None:
        super().add(event, rank)
        if event.kind == BORROWED:
            self.help.append(segment_of(event, rank, event.kind, event.extent))

    def reduce(self, most: int) -> None:
        super().reduce(most)
        self.present = merged(sorted(self.present, key=lambda each: each.begin), max(1, most // 3))


class Cores:
    """Collects the events of all ranks, one rank after the other."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, int], CoreLane] = {}
        self._ranks: dict[tuple[str, int], set[int]] = {}
        self._moved = False
        self._here: CoreLane | None = None
        self._since = 0.0

    def _lane(self, rank: int, host: str, cpu: int) -> CoreLane:
        key = (host, cpu)
        self._ranks.setdefault(key, set()).add(rank)
        return self._lanes.setdefault(key, CoreLane(host=host, cpu=cpu))

    def begin_rank(self, start: float) -> None:
        self._here, self._since = None, start

    def add(self, rank: int, host: str, event: Event) -> None:
        lane = self._lane(rank, host, event.cpu)
        lane.add(event, rank)
        if event.kind == BORROWED or lane is self._here:
            return
        if self._here is not None:
            self._leave(rank, event.begin)
            self._moved = True
        self._here = lane

    def end_rank(self, rank: int, end: float) -> None:
        if self._here is not None:
            self._leave(rank, end)

    def _leave(self, rank: int, at: float) -> None:
        assert self._here is not None
        self._here.present.append(Segment(self._since, max(at, self._since), "", rank=rank))
        self._since = at

    def lanes(self, most: int) -> list[CoreLane]:
        """Return the lanes by host and core, with at most `most` segments together. No lane if each
        rank had a core to itself: the timelines of the ranks then say the same."""
        shared = any(len(ranks) > 1 for ranks in self._ranks.values())
        if not (self._moved or shared):
            return []
        lanes = [lane for _, lane in sorted(self._lanes.items())]
        for lane in lanes:
            lane.reduce(most // len(lanes))
        return lanes
