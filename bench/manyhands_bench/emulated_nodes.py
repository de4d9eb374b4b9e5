# SPDX-License-Identifier: BSD-3-Clause
"""Models of machines for emulated nodes: their cores, their optimum, and the plan of a launch.

A model is a file of bench/emulate/models; README.md in that folder explains its numbers. Times are
nanoseconds of the modelled machine, and rates are bytes per nanosecond (GB/s). The optimum of a
message is its time without claims, shared cache lines and waits, with the best number of copiers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = 4096
NEAR, ACROSS = "near", "across"  # the pair is on one NUMA node, on two NUMA nodes
# How bytes move: by loads and stores of mapped memory, by the kernel, by loads and stores of blocks
# with gaps, through cells. In cells, bytes are copied twice.
MAPPED, KERNEL, BLOCKS, CELLS = "mapped", "kernel", "blocks", "cells"
COMPUTED = "computed"  # no bytes move: loops
LOOP_DILATION = 200  # a chunk of a loop's iterations takes a millisecond and more
# A waiting rank sleeps between two polls, for this many ns of real time for each rank of the job.
# At this length the polls of 128 ranks take a fifth of a core.
NAP_NS_A_RANK = 20_000
LOOK_NS = 250  # least time of the model between two polls

Curve = list[tuple[float, float]]


def total(curve: Curve, cores: float) -> float:
    """The throughput of `cores` active cores together; see Curve in bench/emulate/model.hpp."""
    first_cores, first_rate = curve[0]
    if cores <= first_cores:
        return first_rate * cores / first_cores
    for (low, at_low), (high, at_high) in zip(curve, curve[1:], strict=False):
        if cores <= high:
            return at_low + (at_high - at_low) * (cores - low) / (high - low)
    return curve[-1][1]


@dataclass(frozen=True)
class Model:
    name: str
    data: dict[str, Any]

    @property
    def cores(self) -> int:
        return int(self.data["cores"])

    @property
    def cores_of_node(self) -> int:
        return self.cores // int(self.data["numa_nodes"])

    def curve_for(self, size: int) -> Curve:
        """The rates of copies that are parts of messages of `size` bytes."""
        curves = self.data["copy"]
        near = min(curves, key=lambda one: abs(math.log(size / one["bytes"])))
        return [(cores, rate) for cores, rate in near["gb_per_s"]]

    def places(self, ranks: int, where: str) -> list[int]:
        """The core of each rank. The pair is ranks 0 and 1; the other ranks fill the remaining
        cores in order.
        """
        if where == NEAR:
            return list(range(ranks))
        other = self.cores_of_node
        return [0, other, *[core for core in range(1, self.cores) if core != other][: ranks - 2]]

    def alone_ns(self, size: int, how: str) -> float:
        """The time of a message that one core moves: by the kernel, as in plain MPI, or block by
        block if it has gaps.
        """
        if how == BLOCKS:
            return float(self.data["match_ns"] + size / self.data["blocks"])
        each = total(self.curve_for(size), 1)
        if how == CELLS:
            return float(self.data["match_ns"] + 2 * size / each)
        pages = size / PAGE * self.data["page_ns"]
        return float(self.data["match_ns"] + self.data["call_ns"] + size / each + pages)

    def optimum_ns(self, size: int, cores: list[int], how: str) -> float:
        """The least time of a message that the ranks on `cores`, or some of them, move together."""
        numa = [core // self.cores_of_node for core in cores]
        far_pair = numa[0] != numa[1]
        helpers = numa[2:]
        near = sum(1 for node in helpers if node == numa[0])
        best = max(
            self._rate(size, near_helpers, far_helpers, how, far_pair)
            for near_helpers in range(near + 1)
            for far_helpers in _few(len(helpers) - near)
        )
        return float(self.data["match_ns"]) + size / best

    def _rate(self, size: int, near: int, far: int, how: str, far_pair: bool) -> float:
        """The total rate of the pair, of `near` helpers on the NUMA node of rank 0, and of `far`
        helpers on other NUMA nodes.
        """
        copiers = 2 + near + far
        loaded = copiers / 2 if far_pair else copiers  # copiers at the memory of a NUMA node
        curve = self.curve_for(size)
        each = total(curve, loaded) / loaded
        remote = float(self.data["remote_copy"])
        crossing = 2 / (1 / each + 1 / (each * remote))
        if far_pair:
            return copiers * self._way(crossing, curve, how, True)
        own = 2 * self._way(each, curve, how, True)
        return (
            own
            + near * self._way(each, curve, how, False)
            + far * self._way(each * remote, curve, how, False)
        )

    def _way(self, each: float, curve: Curve, how: str, has_an_end: bool) -> float:
        """The rate of one copier by the way `how`, if it moves bytes at the rate `each` by loads
        and stores. A copier by the kernel that has no end of the message copies twice.
        """
        if how == BLOCKS:
            return float(self.data["blocks"]) * min(1.0, each / total(curve, 1))
        if how == MAPPED:
            return each
        if how == CELLS:
            return each / 2
        page_ns = self.data["page_ns"] / PAGE
        if has_an_end:
            return 1 / (1 / each + page_ns)
        from_cache = total([(c, r) for c, r in self.data["copy"][0]["gb_per_s"]], 1)
        return 1 / (1 / each + 1 / from_cache + 2 * page_ns)


def _few(most: int) -> Iterator[int]:
    """Numbers from 0 to `most`, at most 13 of them."""
    yield from sorted({round(most * step / 12) for step in range(13)})


def folder(checkout: Path) -> Path:
    return checkout / "bench" / "emulate" / "models"


def names(checkout: Path) -> list[str]:
    return sorted(path.stem for path in folder(checkout).glob("*.json"))


def load(checkout: Path, name: str) -> Model:
    return Model(name, json.loads((folder(checkout) / f"{name}.json").read_text()))


def dilation_for(size: int, ranks: int) -> float:
    """The dilation with which a chunk takes milliseconds, and most messages less than a second."""
    base = LOOP_DILATION if size == 0 else 1500 if size <= 1 << 20 else 300
    return base * max(1.0, ranks / 36)


def write_plan(model: Model, cores: list[int], dilation: float, scratch: Path) -> tuple[Path, Path]:
    """Writes the plan of a launch. Returns the paths of the plan and of the file that the ranks
    share; see bench/emulate/model.hpp.
    """
    plan, shared = scratch / "plan.json", scratch / "shared"
    shared.touch()
    nap = max(LOOK_NS * dilation, NAP_NS_A_RANK * len(cores))
    text = {
        "model": model.data,
        "dilation": dilation,
        "nap_ns": nap,
        "shared": str(shared),
        "cpus": cores,
        "numa": [core // model.cores_of_node for core in cores],
    }
    plan.write_text(json.dumps(text))
    return plan, shared
