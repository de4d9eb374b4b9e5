# SPDX-License-Identifier: BSD-3-Clause
"""The properties of this machine that matter to a benchmark: cores, NUMA nodes, caches, load."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from manyhands.machine import cores, numa_nodes, transparent_huge_pages

_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Machine:
    host: str
    model: str
    kernel: str
    cores: int  # physical cores that this process may use
    numa_nodes: int
    cache_bytes: dict[int, int]  # level -> bytes of one cache of that level
    memory_bytes: int
    huge_pages: str  # the bracketed word of transparent_hugepage/enabled

    @property
    def last_level_bytes(self) -> int:
        return self.cache_bytes[max(self.cache_bytes)] if self.cache_bytes else 32 << 20


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _cache_bytes() -> dict[int, int]:
    sizes = {}
    for index in (_CPUS / "cpu0" / "cache").glob("index*"):
        if _read(index / "type") in ("Data", "Unified") and _read(index / "size").endswith("K"):
            sizes[int(_read(index / "level"))] = int(_read(index / "size")[:-1]) << 10
    return sizes


def _model() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def describe() -> Machine:
    return Machine(
        host=platform.node(),
        model=_model(),
        kernel=platform.release(),
        cores=cores(os.sched_getaffinity(0)),
        numa_nodes=max(1, len(numa_nodes())),
        cache_bytes=_cache_bytes(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        huge_pages=transparent_huge_pages() or "unknown",
    )


def load_average() -> float:
    return os.getloadavg()[0]
