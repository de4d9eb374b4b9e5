# SPDX-License-Identifier: BSD-3-Clause
"""Derives MH_THRESHOLD, MH_CHUNK and MH_SATURATE from the lines of mh-tune.

Noise only makes a copy slower, so the number for a measurement is the better quartile of its
batches. The rules:

* threshold: the smallest size from which on a message copied by sender and receiver together is
  faster than every plain way. It must be faster at every larger size, by a margin that covers MPI
  matching.
* chunk: for each size, the smallest chunk within a few per cent of the best time (more chunks feed
  more thieves), and never a smaller chunk for a larger message.
* saturate: the number of copying cores of a NUMA node beside which a core of another node, copying
  within the same memory, adds less than 5 % (CAB-MPI, III-C3); more than all cores if such a core
  always adds more. On a machine with one NUMA node, the number of cores after which a further core
  adds less than 5 %, or all cores. MH_SATURATE is the least number over all NUMA nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import quantiles
from typing import Any

Line = dict[str, Any]

MARGIN = 1.05  # a copy by two ranks must be faster by this factor
NEARLY_BEST = 1.03  # a time within this factor of the best counts as the best
WORTH_ADDING = 1.05  # least factor in throughput by one more copying core
MIN_THRESHOLD = 32 << 10  # MPI libraries send shorter messages eagerly: the sender does not wait


@dataclass(frozen=True)
class Transfer:
    """The times in ns of a message of `bytes`, for each way to copy it."""

    bytes: int
    readv: float
    cells: float
    shared: dict[int, float]  # by chunk size

    @property
    def plain(self) -> float:
        return min(self.readv, self.cells)

    @property
    def best_shared(self) -> float:
        return min(self.shared.values())

    @property
    def gain(self) -> float:
        return self.plain / self.best_shared

    @property
    def chunk(self) -> int:
        """The smallest chunk whose time is within NEARLY_BEST of the best."""
        limit = self.best_shared * NEARLY_BEST
        return min(chunk for chunk, ns in self.shared.items() if ns <= limit)


def low(samples: list[float]) -> float:
    """The lower quartile, for times."""
    return quantiles(samples, n=4, method="inclusive")[0] if len(samples) > 1 else samples[0]


def high(samples: list[float]) -> float:
    """The upper quartile, for rates."""
    return quantiles(samples, n=4, method="inclusive")[2] if len(samples) > 1 else samples[0]


def copies(lines: list[Line]) -> dict[str, dict[int, float]]:
    """Throughput of a copy in GB/s, by way and chunk size."""
    found: dict[str, dict[int, float]] = {}
    for line in lines:
        if line["kind"] == "copy":
            found.setdefault(line["way"], {})[line["chunk"]] = high(line["samples"])
    return found


def saturation(lines: list[Line], guests: int = 0) -> dict[int, list[float]]:
    """GB/s of 1, 2, ... copying cores of a NUMA node and `guests` cores of another one, by NUMA
    node.
    """
    found: dict[int, list[float]] = {}
    for line in lines:
        if line["kind"] == "saturation" and line.get("guests", 0) == guests:
            found.setdefault(line["numa"], []).append(high(line["samples"]))
    return found


def transfers(lines: list[Line]) -> list[Transfer]:
    """The transfers by ascending size, for sizes at which every way was measured."""
    times: dict[int, dict[str, dict[int, float]]] = {}
    for line in lines:
        if line["kind"] == "transfer":
            ways = times.setdefault(line["bytes"], {})
            ways.setdefault(line["way"], {})[line["chunk"]] = low(line["samples"])
    return [
        Transfer(size, ways["readv"][0], ways["cells"][0], ways["shared"])
        for size, ways in sorted(times.items())
        if {"readv", "cells", "shared"} <= ways.keys()
    ]


def threshold(found: list[Transfer]) -> int | None:
    """The least size from which on a copy by two ranks pays; None if it loses at the
    largest size.
    """
    smallest = None
    for transfer in reversed(found):
        if transfer.gain < MARGIN or transfer.bytes < MIN_THRESHOLD:
            break
        smallest = transfer.bytes
    return smallest


def chunk_table(found: list[Transfer]) -> dict[int, int]:
    """The rules of MH_CHUNK: the chunk size by the least size of its messages, the first of which
    is 0.
    """
    rules: dict[int, int] = {}
    largest = 0
    for transfer in found:
        chunk = max(largest, transfer.chunk)
        if chunk > largest:
            rules[transfer.bytes if rules else 0] = chunk
        largest = chunk
    return rules


def chunk_text(rules: dict[int, int]) -> str:
    return ",".join(f"{short(size)}:{short(chunk)}" for size, chunk in rules.items())


def short(size: int) -> str:
    """A size in the form of MH_ settings: 64K, 8M, 1000."""
    for shift, unit in ((20, "M"), (10, "K")):
        if size and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def saturate(
    by_node: dict[int, list[float]], with_guest: dict[int, list[float]] | None = None
) -> int | None:
    if with_guest:
        counts = [_leaves_no_gain_at(by_node[numa], with_guest[numa]) for numa in with_guest]
    else:
        counts = [_saturates_at(rates) for rates in by_node.values() if rates]
    return min(counts) if counts else None


def _leaves_no_gain_at(rates: list[float], with_guest: list[float]) -> int:
    for copiers, (alone, together) in enumerate(zip(rates, with_guest, strict=True), start=1):
        if together < alone * WORTH_ADDING:
            return copiers
    return len(rates) + 1


def _saturates_at(rates: list[float]) -> int:
    for copiers, (now, with_one_more) in enumerate(zip(rates, rates[1:], strict=False), start=1):
        if with_one_more < now * WORTH_ADDING:
            return copiers
    return len(rates)


def settings(lines: list[Line]) -> dict[str, str]:
    """The settings to store; a setting that could not be measured is left out."""
    found = transfers(lines)
    chosen = {}
    size = threshold(found)
    if size is not None:
        chosen["MH_THRESHOLD"] = short(size)
        chosen["MH_CHUNK"] = chunk_text(chunk_table([t for t in found if t.bytes >= size]))
    count = saturate(saturation(lines), saturation(lines, guests=1))
    # MH_SATURATE is the number of cores that saturate a NUMA node's memory. Measurements in which
    # no NUMA node had more than one copying core do not show this number.
    if count is not None and max(len(rates) for rates in saturation(lines).values()) > 1:
        chosen["MH_SATURATE"] = str(count)
    return chosen
