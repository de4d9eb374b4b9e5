# SPDX-License-Identifier: BSD-3-Clause
"""A profile as the library writes it (MH_PROFILE, docs/profile.md), and sums over its rows.

All times are in seconds. A time "of a rank" is the mean over the ranks. The times of the run and of
MPI_Init are those of the slowest rank.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT = "manyhands-profile-1"
COLLECTIVES = (
    "Barrier Bcast Gather Gatherv Scatter Scatterv Allgather Allgatherv Alltoall Alltoallv "
    "Alltoallw Reduce Allreduce Reduce_scatter Reduce_scatter_block Scan Exscan"
).split()


class NotAProfile(Exception):
    """The file cannot be read as a profile; the text says why."""


@dataclass(frozen=True)
class Rank:
    rank: int
    node: int
    init_s: float
    elapsed_s: float
    mpi_s: float
    transfer_s: float
    waiting_s: float


@dataclass
class Row:
    """The calls of one MPI function with buffers of one size class, contiguous or not, summed over
    ranks.
    """

    call: str
    bytes_at_most: int | None
    contiguous: bool
    calls: int = 0
    bytes: int = 0
    seconds: float = 0.0
    transfer_s: float = 0.0

    @property
    def waiting_s(self) -> float:
        return self.seconds - self.transfer_s

    @property
    def is_collective(self) -> bool:
        """True for a blocking collective that moves data, and for `MPI_Barrier`."""
        return self.call.removeprefix("MPI_").removesuffix("_c") in COLLECTIVES


@dataclass(frozen=True)
class Profile:
    ranks: list[Rank]
    rows: list[Row]  # of all ranks, the most seconds first
    late_s: dict[int, float]  # by world rank: how long other ranks have waited for the rank
    summary: dict[str, Any] | None  # of the run, as MH_SUMMARY_JSON writes it

    def _mean(self, values: list[float]) -> float:
        return sum(values) / len(self.ranks)

    @property
    def elapsed_s(self) -> float:
        return max(rank.elapsed_s for rank in self.ranks)

    @property
    def init_s(self) -> float:
        return max(rank.init_s for rank in self.ranks)

    @property
    def mpi_s(self) -> float:
        return self._mean([rank.mpi_s for rank in self.ranks])

    @property
    def transfer_s(self) -> float:
        return self._mean([rank.transfer_s for rank in self.ranks])

    @property
    def waiting_s(self) -> float:
        return self._mean([rank.waiting_s for rank in self.ranks])


def _rows(calls: list[dict[str, Any]]) -> list[Row]:
    sums: dict[tuple[str, int | None, bool], Row] = {}
    for each in calls:
        key = (each["call"], each["bytes_at_most"], each["contiguous"])
        row = sums.setdefault(key, Row(*key))
        row.calls += each["calls"]
        row.bytes += each["bytes"]
        row.seconds += each["seconds"]
        row.transfer_s += each["transfer_s"]
    return sorted(sums.values(), key=lambda row: -row.seconds)


def parse(text: str | bytes) -> Profile:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise NotAProfile(f"it is not valid JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise NotAProfile(f'its "format" is not {FORMAT}')
    late: dict[int, float] = defaultdict(float)
    for each in data["late"]:
        late[each["rank"]] += each["seconds"]
    ranks = [Rank(**rank) for rank in data["ranks"]]
    return Profile(ranks, _rows(data["calls"]), dict(late), data["summary"])


def read(path: Path) -> Profile:
    return parse(path.read_bytes())
