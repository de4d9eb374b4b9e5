# SPDX-License-Identifier: BSD-3-Clause
"""The OpenMP loops in a program file, found without running it.

Compiled code calls the OpenMP run time by name. A loop whose iterations are handed out at run time
begins with a call of its own. A loop with a static schedule asks for the size of the team (GCC) or
for its share (Clang). The calls of each kind are counted in the machine code of the program and its
libraries. The count is close, not exact: a compiler may copy a loop.

Limits: ELF for x86-64 with section headers; libraries loaded at run time are not seen.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from manyhands.program import output_of

RUN_TIME = "GOMP_parallel"  # every run time exports it, as in src/openmp/rebind.cpp
MARK = "__mh_ws_mark"
REGION = re.compile(r"GOMP_parallel(_loop_\w+)?|__kmpc_fork_call")
HANDED_OUT = re.compile(
    r"GOMP_(?:parallel_loop|loop|loop_ull)_(?:nonmonotonic_|maybe_nonmonotonic_)?"
    r"(dynamic|guided|runtime)(?:_start)?|__kmpc_dispatch_init_\w+"
)
DEALT_OUT = re.compile(r"omp_get_num_threads|__kmpc_for_static_init_\w+")

# --- ELF --------------------------------------------------------------------------------------

SHT_RELA, SHT_DYNSYM = 4, 11
SHF_EXECINSTR = 4
R_GLOB_DAT, R_JUMP_SLOT = 6, 7
X86_64 = 62


@dataclass(frozen=True)
class Section:
    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


@dataclass
class Image:
    """The file of an object."""

    data: bytes
    sections: list[Section]

    def content(self, section: Section) -> bytes:
        return self.data[section.offset : section.offset + section.size]

    def named(self, kind: int) -> Iterator[Section]:
        return (section for section in self.sections if section.kind == kind)


def text_at(strings: bytes, at: int) -> str:
    return strings[at : strings.find(b"\0", at)].decode(errors="replace")


def image_of(path: Path) -> Image | None:
    """None if the file is not a (complete) 64-bit ELF file."""
    try:
        data = path.read_bytes()
        if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != X86_64:
            return None
        (start,) = struct.unpack_from("<Q", data, 40)
        size, count, names_at = struct.unpack_from("<HHH", data, 58)
        rows = [struct.unpack_from("<IIQQQQI", data, start + i * size) for i in range(count)]
        names = data[rows[names_at][4] : rows[names_at][4] + rows[names_at][5]] if rows else b""
    except (OSError, struct.error, IndexError):
        return None
    if any(row[6] >= count for row in rows):
        return None
    return Image(data, [Section(text_at(names, row[0]), *row[1:]) for row in rows])


def dynamic_symbols(image: Image) -> list[tuple[str, bool]]:
    """Name, and whether the object defines it."""
    result = []
    for table in image.named(SHT_DYNSYM):
        strings = image.content(image.sections[table.link])
        whole = image.content(table)
        for name, _, _, section, _, _ in struct.iter_unpack(
            "<IBBHQQ", whole[: len(whole) // 24 * 24]
        ):
            result.append((text_at(strings, name), section != 0))
    return result


def slots(image: Image, names: list[str]) -> dict[int, str]:
    """The addresses at which the loader stores the addresses of imported functions."""
    found = {}
    for table in image.named(SHT_RELA):
        whole = image.content(table)
        for place, info, _ in struct.iter_unpack("<QQq", whole[: len(whole) // 24 * 24]):
            symbol = info >> 32
            if info & 0xFFFFFFFF in (R_GLOB_DAT, R_JUMP_SLOT) and symbol < len(names):
                found[place] = names[symbol]
    return found


# call and jmp to an address, and through an address that is DISTANCE from the next instruction.
TRANSFER = re.compile(rb"[\xe8\xe9]|\xff[\x15\x25]", re.DOTALL)


def transfers(image: Image, section: Section) -> Iterator[tuple[int, int, bool]]:
    """Calls and jumps of a section: origin, target, and whether the target is a slot."""
    code = image.content(section)
    for match in TRANSFER.finditer(code, 0, max(len(code) - 4, 0)):
        end = match.end() + 4
        (distance,) = struct.unpack_from("<i", code, match.end())
        through = match.end() - match.start() == 2
        yield section.address + match.start(), section.address + end + distance, through


def calls(image: Image, names: list[str]) -> Counter[str]:
    """The number of calls of each imported function."""
    code = [section for section in image.sections if section.flags & SHF_EXECINSTR]
    filled = slots(image, names)
    stubs = {}
    for section in code:
        if section.name.startswith(".plt"):
            for start, target, through in transfers(image, section):
                if through and target in filled:
                    stubs[start & ~7] = filled[target]  # endbr64 may precede
    counted: Counter[str] = Counter()
    for section in code:
        if section.name.startswith(".plt"):
            continue
        for _, target, through in transfers(image, section):
            name = (filled if through else stubs).get(target)
            if name is not None:
                counted[name] += 1
    return counted


# --- loops ------------------------------------------------------------------------------------


@dataclass
class Loops:
    """The loops of an object."""

    path: Path
    regions: int = 0
    handed_out: Counter[str] = field(default_factory=Counter)  # by schedule; "any" for Clang
    dealt_out: int = 0
    marked: int = 0

    @property
    def unmarked(self) -> int:
        """Loops that may be shared although they are not marked."""
        return max(sum(self.handed_out.values()) - self.marked, 0)


def loops_of(path: Path, image: Image, symbols: list[tuple[str, bool]]) -> Loops | None:
    """None for an object without OpenMP of its own."""
    wanted = {name for name, defined in symbols if not defined}
    if not any(REGION.fullmatch(name) for name in wanted):
        return None
    loops = Loops(path)
    for name, count in calls(image, [name for name, _ in symbols]).items():
        if REGION.fullmatch(name):
            loops.regions += count
        if match := HANDED_OUT.fullmatch(name):
            loops.handed_out[match.group(1) or "any"] += count
        if DEALT_OUT.fullmatch(name):
            loops.dealt_out += count
        if name == MARK:
            loops.marked += count
    return loops


@dataclass
class OpenMp:
    run_times: list[Path] = field(default_factory=list)
    objects: list[Loops] = field(default_factory=list)


def loaded_files(program: Path) -> list[Path]:
    """The program and the libraries that the dynamic linker loads for it."""
    files = [program]
    for line in output_of(["ldd", str(program)]).splitlines():
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
