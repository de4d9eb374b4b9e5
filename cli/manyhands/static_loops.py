# SPDX-License-Identifier: BSD-3-Clause
"""The parallel regions in a program file that virtual threads may run (MH_OPENMP=static).

Compilers make a function of each region. The calls of the OpenMP run time in that function, and in
the functions of the same file that it calls, tell whether the region needs a real team. This is an
estimate: the library decides at run time, when it decodes instructions, follows other libraries,
and watches the region.

Limits: regions are found by the names of their functions, so a stripped file has no regions. Bytes
that look like a call count as a call.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

from manyhands.image import Image, got_slots, plt_stubs, transfers

REGION = re.compile(r".*\._omp_fn\.\d+(\..+)?|\.omp_outlined\..*")
RUN_TIME = re.compile(r"GOMP_|GOACC_|omp_|__kmp|kmp_")
# Functions of the OpenMP run time that a region may call and still be shared. These patterns repeat
# the lists of src/openmp/calls.cpp.
PERMITTED = re.compile(
    r"__kmpc_for_static_(init_\w+|fini)|__kmpc_global_thread_num|GOMP_(critical|atomic)_\w+"
    r"|__kmpc_(critical\w*|end_critical|atomic_\w+|\w+_lock(_with_hint)?)|omp_\w+_lock(_with_hint)?"
    r"|omp_get_(thread_num|num_threads|max_threads|level|active_level|wtime|wtick)_?"
    r"|GOMP_barrier|__kmpc_barrier|__kmpc_(end_)?reduce(_nowait)?"
    r"|omp_in_parallel_?|omp_is_initial_device_?|omp_get_num_devices_?"
)
DYNAMIC_LOOP = re.compile(r"GOMP_loop_\w*(dynamic|guided|runtime)_\w+|__kmpc_dispatch_\w+")
REASONS = {
    "cancellation": re.compile(r"\w*cancel\w*"),
    "tasks": re.compile(r"GOMP_task\w*|__kmpc_(omp_)?task\w*"),
    "single or sections": re.compile(
        r"GOMP_(single|sections|ordered)\w*|__kmpc_(end_)?(single|ord)\w*"
    ),
    "a nested region": re.compile(r"GOMP_parallel\w*|__kmpc_fork_call\w*"),
    "MPI calls": re.compile(r"P?MPI_\w+|p?mpi_\w+"),
}
THREAD_DATA = "thread-local data"
SHT_SYMTAB, STT_FUNC, PT_TLS = 2, 2, 7


@dataclass
class StaticRegions:
    """The number of regions that qualify, and for each reason the number of regions it refuses."""

    qualify: int = 0
    refused: Counter[str] = field(default_factory=Counter)


@dataclass
class Function:
    name: str
    imports: set[str] = field(default_factory=set)
    calls: set[int] = field(default_factory=set)  # addresses of functions


def functions_of(image: Image) -> dict[int, tuple[str, int]]:
    """The name and the size of each function, by its address."""
    found = {}
    for table in image.named(SHT_SYMTAB):
        strings = image.content(image.sections[table.link])
        whole = image.content(table)
        for name, info, _, section, address, size in struct.iter_unpack(
            "<IBBHQQ", whole[: len(whole) // 24 * 24]
        ):
            if info & 15 == STT_FUNC and section and size:
                end = strings.find(b"\0", name)
                found[address] = (strings[name:end].decode(errors="replace"), size)
    return found


def with_calls(image: Image, names: list[str]) -> dict[int, Function]:
    """The functions of the file by address, each with the functions it calls."""
    sizes = functions_of(image)
    result = {address: Function(name) for address, (name, _) in sizes.items()}
    starts = sorted(sizes)
    filled = got_slots(image, names)
    behind = plt_stubs(image, filled)
    for section in image.code():
        for origin, target, through in transfers(image, section):
            at = bisect_right(starts, origin) - 1
            if at < 0 or origin >= starts[at] + sizes[starts[at]][1]:
                continue
            function = result[starts[at]]
            name = (filled if through else behind).get(target)
            if name is not None:
                function.imports.add(name)
            elif not through and target in result:
                function.calls.add(target)
    return result


def within_reach(functions: dict[int, Function], first: int) -> set[str]:
    """The imported functions that a function can reach through calls within its file."""
    seen, ahead, imports = {first}, [first], set()
    while ahead:
        function = functions[ahead.pop()]
        imports |= function.imports
        ahead += function.calls - seen
        seen |= function.calls
    return imports


def reason_against(imports: set[str]) -> str | None:
    """The reason why a region with these imports needs a real team; None if the region
    qualifies.
    """
    refused = {name for name in imports if RUN_TIME.match(name) and not PERMITTED.fullmatch(name)}
    refused |= {name for name in imports if REASONS["MPI calls"].fullmatch(name)}
    for words, pattern in REASONS.items():
        if any(pattern.fullmatch(name) for name in refused):
            return words
    return "other OpenMP calls" if refused else None


def has_thread_data(image: Image) -> bool:
    start, size, count = (
        struct.unpack_from("<Q", image.data, 32)[0],
        *struct.unpack_from("<HH", image.data, 54),
    )
    kinds = [struct.unpack_from("<I", image.data, start + i * size)[0] for i in range(count)]
    return PT_TLS in kinds


def static_regions(image: Image, names: list[str]) -> StaticRegions:
    """Judges the regions that contain no loop whose iterations are handed out at run time."""
    found = StaticRegions()
    functions = with_calls(image, names)
    own_data = has_thread_data(image)
    for address, function in functions.items():
        if not REGION.fullmatch(function.name):
            continue
        imports = within_reach(functions, address)
        if any(DYNAMIC_LOOP.fullmatch(name) for name in imports):
            continue
        reason = THREAD_DATA if own_data else reason_against(imports)
        if reason is None:
            found.qualify += 1
        else:
            found.refused[reason] += 1
    return found
