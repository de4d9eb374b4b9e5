# SPDX-License-Identifier: BSD-3-Clause
"""A traced run: its ranks, sums over its events, and the profile if the run came to its end.

All times are in seconds. Sums that the trace files keep (help, messages, time in MPI) are exact
even where events were overwritten. Sums by call come from the profile; without a profile they cover
the events that have not been overwritten.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from manyhands.profiling import record
from manyhands.profiling.record import Profile
from manyhands.trace import cores
from manyhands.trace.cores import CoreLane
from manyhands.trace.files import Event, NotATrace, RankFile, Total, open_all
from manyhands.trace.timeline import CALLS, Lane

PROFILE = "profile.json"


@dataclass
class CallSums:
    """The calls of one MPI function by all ranks."""

    call: str
    calls: int = 0
    bytes: int = 0
    transfer_s: float = 0.0
    waiting_s: float = 0.0

    @property
    def seconds(self) -> float:
        return self.transfer_s + self.waiting_s


@dataclass
class Rank:
    """The times of a rank. A rank helps inside MPI, so help is a part of waiting or transfer."""

    rank: int
    node: int
    host: str
    elapsed_s: float
    complete: bool
    events: int
    lost: int
    totals: dict[str, Total]
    lane: Lane
    cores: set[int] = field(default_factory=set)

    def _of_calls(self, name: str) -> float:
        return sum(getattr(self.totals[kind], name) for kind in CALLS)

    @property
    def transfer_s(self) -> float:
        return self._of_calls("transfer_s")

    @property
    def waiting_s(self) -> float:
        return self._of_calls("waiting_s")

    @property
    def mpi_s(self) -> float:
        return self.transfer_s + self.waiting_s

    @property
    def useful_s(self) -> float:
        return max(0.0, self.elapsed_s - self.mpi_s)

    @property
    def helping_s(self) -> float:
        return sum(self.totals[kind].extent_s for kind in ("helped", "lent", "task"))


@dataclass(frozen=True)
class Efficiency:
    """The efficiencies of the POP model: parallel = load_balance x communication."""

    parallel: float
    load_balance: float
    communication: float


def efficiency(work_s: list[float], elapsed_s: float) -> Efficiency:
    most = max(work_s, default=0.0)
    if elapsed_s <= 0 or most <= 0:
        return Efficiency(1.0, 1.0, 1.0)
    mean = sum(work_s) / len(work_s)
    return Efficiency(mean / elapsed_s, mean / most, most / elapsed_s)


@dataclass
class Run:
    folder: Path
    ranks: list[Rank]
    world: int  # ranks of the MPI job; files of some may be missing
    profile: Profile | None
    calls: list[CallSums]  # the longest first
    helped_bytes: dict[tuple[int, int], int]  # key: helping rank, owner
    lent_s: dict[tuple[int, int], float]  # key: lender, owner
    late_s: dict[int, float]  # by rank: how long other ranks have waited for the rank
    paths: dict[str, tuple[int, int]]  # messages and bytes by path
    left: dict[str, tuple[int, int]]  # messages and bytes left to the MPI library, by reason
    cores: list[CoreLane]  # empty if each rank had a core to itself

    @property
    def elapsed_s(self) -> float:
        return max(rank.elapsed_s for rank in self.ranks)

    @property
    def complete(self) -> bool:
        return len(self.ranks) == self.world and all(rank.complete for rank in self.ranks)

    @property
    def lost(self) -> int:
        return sum(rank.lost for rank in self.ranks)

    @property
    def nodes(self) -> int:
        return len({rank.node for rank in self.ranks})

    def total(self, kind: str) -> Total:
        all_of = [rank.totals[kind] for rank in self.ranks]
        return Total(*(sum(values) for values in zip(*map(_fields, all_of), strict=True)))

    def mean_s(self, name: str) -> float:
        return sum(getattr(rank, name) for rank in self.ranks) / len(self.ranks)

    def efficiency(self, with_help: bool) -> Efficiency:
        work = [
            rank.useful_s + min(rank.helping_s if with_help else 0.0, rank.mpi_s)
            for rank in self.ranks
        ]
        return efficiency(work, self.elapsed_s)


def _fields(total: Total) -> tuple[float, ...]:
    return tuple(vars(total).values())


class _Sums:
    """Sums over the events of all ranks."""

    def __init__(self) -> None:
        self.calls: dict[str, CallSums] = {}
        self.helped_bytes: dict[tuple[int, int], int] = defaultdict(int)
        self.lent_s: dict[tuple[int, int], float] = defaultdict(float)
        self.late_s: dict[int, float] = defaultdict(float)
        self.paths: dict[str, tuple[int, int]] = {}
        self.left: dict[str, tuple[int, int]] = {}

    def add(self, rank: int, event: Event) -> None:
        if event.kind in CALLS:
            self._add_call(event)
        elif event.kind == "helped" and event.peer is not None:
            self.helped_bytes[rank, event.peer] += event.bytes
        elif event.kind == "lent" and event.peer is not None:
            self.lent_s[rank, event.peer] += event.extent
        elif event.kind == "copied":
            _count(self.paths, event)
        elif event.kind == "left":
            _count(self.left, event)

    def _add_call(self, event: Event) -> None:
        row = self.calls.setdefault(event.call, CallSums(event.call))
        row.calls += event.count
        row.bytes += event.bytes
        row.transfer_s += event.transfer
        row.waiting_s += event.waiting
        if event.peer is not None:
            self.late_s[event.peer] += event.waiting


def _count(table: dict[str, tuple[int, int]], event: Event) -> None:
    messages, size = table.get(event.detail, (0, 0))
    table[event.detail] = (messages + 1, size + event.bytes)


def _read_rank(file: RankFile, sums: _Sums, most_segments: int) -> Rank:
    lane = Lane()
    cpus: set[int] = set()
    last = file.start
    for event in file.events():
        sums.add(file.rank, event)
        lane.add(event, file.rank)
        cpus.add(event.cpu)
        last = max(last, event.begin + event.extent)
    lane.reduce(most_segments)
    kinds = ("call brief_calls sent copied left helped lent on_lent_core loop task").split()
    return Rank(
        rank=file.rank,
        node=file.node,
        host=file.host,
        elapsed_s=(file.end if file.end is not None else last) - file.start,
        complete=file.is_complete,
        events=file.written,
        lost=file.lost,
        totals={kind: file.total(kind) for kind in kinds},
        lane=lane,
        cores=cpus,
    )


def _profile_of(folder: Path, files: list[RankFile]) -> Profile | None:
    """The profile of this run; None if there is none, or only that of an earlier run."""
    path = folder / PROFILE
    if not all(file.is_complete for file in files) or not path.exists():
        return None
    if path.stat().st_mtime_ns < max(file.start_unix_ns for file in files):
        return None
    try:
        return record.read(path)
    except record.NotAProfile:
        return None


def _calls_of(profile: Profile | None, sums: _Sums) -> list[CallSums]:
    if profile is None:
        return sorted(sums.calls.values(), key=lambda row: -row.seconds)
    exact: dict[str, CallSums] = {}
    for row in profile.rows:
        found = exact.setdefault(row.call, CallSums(row.call))
        found.calls += row.calls
        found.bytes += row.bytes
        found.transfer_s += row.transfer_s
        found.waiting_s += row.waiting_s
    return sorted(exact.values(), key=lambda row: -row.seconds)


def read(folder: Path, most_segments: int = 100_000) -> Run:
    """Reads a traced run. The timelines have at most `most_segments` for ranks, a quarter of it for
    cores.
    """
    if not folder.is_dir():
        raise NotATrace(f"{folder} is not a folder")
    files = open_all(folder)
    sums = _Sums()
    ranks = [_read_rank(file, sums, most_segments // len(files)) for file in files]
    by_core = cores.differ_from_ranks((rank.host, rank.cores) for rank in ranks)
    profile = _profile_of(folder, files)
    return Run(
        folder=folder,
        ranks=ranks,
        world=max(file.ranks for file in files),
        profile=profile,
        calls=_calls_of(profile, sums),
        helped_bytes=dict(sums.helped_bytes),
        lent_s=dict(sums.lent_s),
        late_s=dict(sums.late_s) if profile is None else profile.late_s,
        paths=sums.paths,
        left=sums.left,
        cores=cores.lanes_of(files, most_segments // 4) if by_core else [],
    )
