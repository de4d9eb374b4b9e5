# SPDX-License-Identifier: BSD-3-Clause
"""The OpenMP loops in a program file, found without running it.

Compiled code calls the OpenMP run time by name. A loop whose iterations are handed out at run time
begins with a call that no other loop makes. A loop with a static schedule asks for the size of the
team (GCC) or for its thread's share of the iterations (Clang). The calls of each kind are counted
in the machine code of the program and its libraries. The count is close, not exact: a compiler may
copy a loop.

Limits: ELF for x86-64 with section headers. Libraries that the program loads by dlopen are not
seen.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from manyhands.image import Image, calls, dynamic_symbols, image_of
from manyhands.program import as_word, output_of
from manyhands.static_loops import StaticRegions, static_regions

RUN_TIME = "GOMP_parallel"  # exported by every run time; see src/openmp/rebind.cpp
MARK = "__mh_ws_mark"
REGION = re.compile(r"GOMP_parallel(_loop_\w+)?|__kmpc_fork_call")
DYNAMIC_LOOP = re.compile(
    r"GOMP_(?:parallel_loop|loop|loop_ull)_(?:nonmonotonic_|maybe_nonmonotonic_)?"
    r"(dynamic|guided|runtime)(?:_start)?|__kmpc_dispatch_init_\w+"
)
STATIC_LOOP = re.compile(r"omp_get_num_threads|__kmpc_for_static_init_\w+")


@dataclass
class Loops:
    """The loops of a program file or of a shared library."""

    path: Path
    regions: int = 0
    dynamic_loops: Counter[str] = field(default_factory=Counter)  # by schedule; "any" from Clang
    static_loops: int = 0
    marked: int = 0
    static: StaticRegions = field(default_factory=StaticRegions)

    @property
    def unmarked(self) -> int:
        """Loops that may be shared although they are not marked."""
        return max(sum(self.dynamic_loops.values()) - self.marked, 0)


def loops_of(path: Path, image: Image, symbols: list[tuple[str, bool]]) -> Loops | None:
    """The loops of a program file or library; None if it calls no parallel region."""
    wanted = {name for name, defined in symbols if not defined}
    if not any(REGION.fullmatch(name) for name in wanted):
        return None
    loops = Loops(path)
    names = [name for name, _ in symbols]
    loops.static = static_regions(image, names)
    for name, count in calls(image, names).items():
        if REGION.fullmatch(name):
            loops.regions += count
        if match := DYNAMIC_LOOP.fullmatch(name):
            loops.dynamic_loops[match.group(1) or "any"] += count
        if STATIC_LOOP.fullmatch(name):
            loops.static_loops += count
        if name == MARK:
            loops.marked += count
    return loops


@dataclass
class OpenMp:
    run_times: list[Path] = field(default_factory=list)
    objects: list[Loops] = field(default_factory=list)


def loaded_files(program: Path) -> list[Path]:
    """The program and the libraries that the dynamic linker loads for the program."""
    files = [program]
    for line in output_of(["ldd", as_word(program)]).splitlines():
        name, arrow, found = line.strip().partition(" => ")
        target = (found if arrow else name).split(" (")[0]
        if target.startswith("/"):
            files.append(Path(target))
    return files


def examine(program: Path) -> OpenMp:
    result = OpenMp()
    for path in loaded_files(program):
        image = image_of(path)
        if image is None:
            continue
        symbols = dynamic_symbols(image)
        if (RUN_TIME, True) in symbols:
            result.run_times.append(path)
            continue
        loops = loops_of(path, image, symbols)
        if loops is not None:
            result.objects.append(loops)
    return result
