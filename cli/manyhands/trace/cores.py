# SPDX-License-Identifier: BSD-3-Clause
"""The timelines of the cores: the ranks that were on a core, and their calls and help on it.

A rank counts as present on the core of its last event until its next event on another core. A chunk
that a helper thread moves on a lent core does not move the rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from manyhands.trace.files import Event, RankFile
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


def differ_from_ranks(cores_of_ranks: Iterable[tuple[str, set[int]]]) -> bool:
    """True if the timelines of the cores show more than those of the ranks: some rank changed its
    core, or ranks shared a core.
    """
    seen: set[tuple[str, int]] = set()
    for host, cpus in cores_of_ranks:
        own = {(host, cpu) for cpu in cpus}
        if len(own) > 1 or own & seen:
            return True
        seen |= own
    return False


def lanes_of(files: list[RankFile], most: int) -> list[CoreLane]:
    """The lanes, ordered by host and core, with at most `most` segments in all lanes together."""
    lanes: dict[tuple[str, int], CoreLane] = {}
    for file in files:
        _add_rank(file, lanes)
        for lane in lanes.values():  # bounds the memory
            lane.reduce(most)
    for lane in lanes.values():
        lane.reduce(most // len(lanes))
    return [lane for _, lane in sorted(lanes.items())]


def _add_rank(file: RankFile, lanes: dict[tuple[str, int], CoreLane]) -> None:
    here: CoreLane | None = None
    since = last = file.start

    def leave(at: float) -> None:
        if here is not None:
            here.present.append(Segment(since, max(at, since), "", rank=file.rank))

    for event in file.events():
        place = (file.host, event.cpu)
        lane = lanes.setdefault(place, CoreLane(host=file.host, cpu=event.cpu))
        lane.add(event, file.rank)
        last = max(last, event.begin + event.extent)
        if event.kind == BORROWED or lane is here:
            continue
        if here is not None:
            leave(event.begin)
            since = event.begin
        here = lane
    leave(last if file.end is None else file.end)
