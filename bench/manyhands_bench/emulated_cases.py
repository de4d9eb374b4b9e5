# SPDX-License-Identifier: BSD-3-Clause
"""The cases of emulated nodes, after the figures of CAB-MPI.

A *series* is a program that is launched with the same ranks and settings for several sizes. Sizes
with the same dilation share a launch. *Helpers* are the ranks beside the communicating pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from manyhands_bench.emulated_nodes import (
    ACROSS,
    BLOCKS,
    CELLS,
    COMPUTED,
    KERNEL,
    MAPPED,
    NEAR,
    Model,
)

_K, _M = 1 << 10, 1 << 20
SIZES = (64 * _K, 256 * _K, _M, 4 * _M, 8 * _M, 16 * _M, 64 * _M)
LARGE = (8 * _M,)
PLANES = (_M, 8 * _M)
MANY = 64  # cores; models with more cores have fewer series, because each launch takes a minute
CHUNKS = (16, 32, 64, 128, 256, 512)  # KB
# The shared heap is on without its default budget, since this budget depends on the memory of the
# real machine, not of the emulated one.
HEAP = {"MH_HEAP": "on"}
NO_HEAP = {"MH_HEAP": "off"}
STRATEGIES = ("localized", "mixed", "throughput")
# The settings with which third ranks help in messages of every size, as in the stored run on
# sixteen cores (docs/results/sixteen-cores.md).
IN_ALL = {"MH_HELP_THRESHOLD": "64K", "MH_MAPPED_HELP_THRESHOLD": "16K"}


SHARED = {"MH_HEAP": "off", "MH_OPENMP": "1", "OMP_NUM_THREADS": "1"}
# Loops by name: the arguments of bench/mpi/loops.c, and the largest work of a rank over the mean
# work, for `p` ranks.
LOOPS: dict[str, tuple[tuple[str, ...], Callable[[int], float]]] = {
    "triangle": ((), lambda p: (2 * p - 1) / p),
    "ramp of 10 %": (("--balanced", "--ramp", "10"), lambda _: 1.1),
    "ramp of 50 %": (("--balanced", "--ramp", "50"), lambda _: 1.5),
    "ramp of 90 %": (("--balanced", "--ramp", "90"), lambda _: 1.9),
    "balanced": (("--balanced",), lambda _: 1.0),
}
LOOP_MS = (5, 20)


@dataclass(frozen=True)
class Series:
    case: str
    label: str
    ranks: int
    where: str
    how: str
    sizes: tuple[int, ...]
    settings: dict[str, str] = field(default_factory=dict)
    program: str = "pingpong"
    loop: str = ""  # for the program `loops`: a name of LOOPS
    loop_ms: int = 0  # the time of the longest rank's loop, in ms

    @property
    def helpers(self) -> int:
        return self.ranks - 2


def _counts(model: Model) -> list[int]:
    """The numbers of ranks: the pair alone, few helpers, a NUMA node full of ranks, that and a
    rank on another NUMA node, and a rank on each core.
    """
    node = model.cores_of_node
    few = (4, 10) if model.cores <= MANY else ()
    wanted = (2, *few, node, node + 1, model.cores)
    return sorted({count for count in wanted if count <= model.cores})


def _sizes(model: Model, ranks: int) -> tuple[int, ...]:
    """The message sizes. The longest are left out if few helpers would take seconds for them."""
    if model.cores > MANY:
        return (_M, 8 * _M)
    return SIZES if ranks >= model.cores_of_node else SIZES[:-1]


def _messages(model: Model) -> list[Series]:
    paths = [(NEAR, MAPPED, HEAP), (ACROSS, MAPPED, HEAP)]
    if model.cores <= MANY:
        paths.insert(1, (NEAR, KERNEL, NO_HEAP))
    return [
        Series("messages", f"{how}, {where}", ranks, where, how, _sizes(model, ranks), settings)
        for where, how, settings in paths
        if where in _wheres(model)
        for ranks in _counts(model)
    ]


def _wheres(model: Model) -> tuple[str, ...]:
    return (NEAR, ACROSS) if model.cores_of_node < model.cores else (NEAR,)


def _in_all(model: Model) -> list[Series]:
    return [
        Series("all-sizes", how, ranks, NEAR, how, SIZES, {**settings, **IN_ALL})
        for how, settings in ((MAPPED, HEAP), (KERNEL, NO_HEAP))
        for ranks in (3, 4, 8, 16)
        if ranks <= model.cores
    ]


def _planes(model: Model) -> list[Series]:
    return [
        Series("planes", f"{BLOCKS}, {where}", ranks, where, BLOCKS, PLANES, HEAP, "noncontiguous")
        for where in _wheres(model)
        for ranks in _counts(model)
    ]


def _cells(model: Model) -> list[Series]:
    settings = {**NO_HEAP, "MH_MEMORY": "cells"}
    return [
        Series("cells", f"{CELLS}, {where}", ranks, where, CELLS, PLANES, settings)
        for where in _wheres(model)
        for ranks in _counts(model)
    ]


def _strategies(model: Model) -> list[Series]:
    return [
        Series(
            "strategies",
            f"{name}, {where}",
            ranks,
            where,
            MAPPED,
            LARGE,
            {**HEAP, "MH_STRATEGY": name},
        )
        for where in _wheres(model)
        for name in STRATEGIES
        for ranks in _counts(model)
        if ranks > 2
    ]


def _saturate(model: Model) -> list[Series]:
    limits = [1, 2, 4, 8, 16, model.cores_of_node]
    return [
        Series(
            "saturate",
            f"MH_SATURATE={limit}, {where}",
            model.cores,
            where,
            MAPPED,
            LARGE,
            {**HEAP, "MH_SATURATE": str(limit)},
        )
        for where in _wheres(model)
        for limit in sorted(set(limits))
    ]


def _chunks(model: Model) -> list[Series]:
    arms = [(f"{kb} KB", {"MH_CHUNK": f"{kb}K"}) for kb in CHUNKS] + [("on demand", {})]
    return [
        Series(
            "chunks",
            name,
            model.cores_of_node,
            NEAR,
            MAPPED,
            SIZES[:-1],
            {**HEAP, **IN_ALL, **setting},
        )
        for name, setting in arms
    ]


def _loops(model: Model) -> list[Series]:
    """Loops of ranks with unequal work, and of equal work. They move no messages: size 0."""
    return [
        Series(
            "loops",
            f"{loop}, {ms} ms",
            ranks,
            NEAR,
            COMPUTED,
            (0,),
            SHARED,
            "loops",
            loop,
            ms,
        )
        for loop in LOOPS
        for ms in LOOP_MS
        for ranks in sorted({model.cores_of_node, model.cores})
    ]


MAKERS = {
    "messages": _messages,
    "all-sizes": _in_all,
    "planes": _planes,
    "cells": _cells,
    "strategies": _strategies,
    "saturate": _saturate,
    "chunks": _chunks,
    "loops": _loops,
}
TITLES = {
    "messages": "PingPong by number of helpers (CAB-MPI, figures 4a to 4d)",
    "all-sizes": "PingPong with third ranks in messages of every size (results/sixteen-cores.md)",
    "planes": "X-Z planes, Z = 64, pack, with a heap, by number of helpers (CAB-MPI, figure 5)",
    "cells": "PingPong through cells by number of helpers (the poster's figure 2)",
    "strategies": "PingPong of 8 MB by strategy (CAB-MPI, figures 4c and 4d)",
    "saturate": "PingPong of 8 MB by MH_SATURATE, all cores",
    "chunks": "Fixed chunk sizes against the table, a NUMA node full of ranks (CAB-MPI, figure 10)",
    "loops": "Shared loops: times as fast as the longest rank alone (Workshare, section V)",
}


def series_of(model: Model, only: list[str]) -> list[Series]:
    """The series of the cases in `only`, or of all cases if `only` is empty. Raises ValueError for
    an unknown name.
    """
    unknown = [name for name in only if name not in MAKERS]
    if unknown:
        names = ", ".join(MAKERS)
        raise ValueError(f"there is no emulated case {', '.join(unknown)}; choose from {names}")
    return [one for name in only or MAKERS for one in MAKERS[name](model)]
