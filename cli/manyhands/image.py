# SPDX-License-Identifier: BSD-3-Clause
"""Program files: sections, imported functions, and the calls in the machine code.

Limits: ELF for x86-64 with section headers. Bytes that look like a call count as a call.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
    """An ELF file: a program or a shared library."""

    data: bytes
    sections: list[Section]

    def content(self, section: Section) -> bytes:
        return self.data[section.offset : section.offset + section.size]

    def named(self, kind: int) -> Iterator[Section]:
        return (section for section in self.sections if section.kind == kind)

    def code(self) -> Iterator[Section]:
        """The sections of machine code, except the linker's stubs (.plt)."""
        return (
            section
            for section in self.sections
            if section.flags & SHF_EXECINSTR and not section.name.startswith(".plt")
        )


def text_at(strings: bytes, at: int) -> str:
    return strings[at : strings.find(b"\0", at)].decode(errors="replace")


def image_of(path: Path) -> Image | None:
    """The image of a file; None if the file is not a complete 64-bit ELF file for x86-64."""
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
    """The dynamic symbols: the name of each, and whether this file defines it."""
    result = []
    for table in image.named(SHT_DYNSYM):
        strings = image.content(image.sections[table.link])
        whole = image.content(table)
        for name, _, _, section, _, _ in struct.iter_unpack(
            "<IBBHQQ", whole[: len(whole) // 24 * 24]
        ):
            result.append((text_at(strings, name), section != 0))
    return result


def got_slots(image: Image, names: list[str]) -> dict[int, str]:
    """The GOT slots: each address at which the loader stores the address of an imported function,
    with the function's name.
    """
    found = {}
    for table in image.named(SHT_RELA):
        whole = image.content(table)
        for place, info, _ in struct.iter_unpack("<QQq", whole[: len(whole) // 24 * 24]):
            symbol = info >> 32
            if info & 0xFFFFFFFF in (R_GLOB_DAT, R_JUMP_SLOT) and symbol < len(names):
                found[place] = names[symbol]
    return found


# Matches the opcodes of the x86-64 instructions call and jmp, direct or through a GOT slot. Four
# bytes of the instruction follow the match: the signed distance from the next instruction to the
# target or to the slot.
TRANSFER = re.compile(rb"[\xe8\xe9]|\xff[\x15\x25]", re.DOTALL)


def transfers(image: Image, section: Section) -> Iterator[tuple[int, int, bool]]:
    """Calls and jumps in a section: address, target address, and whether the target is a GOT
    slot.
    """
    code = image.content(section)
    for match in TRANSFER.finditer(code, 0, max(len(code) - 4, 0)):
        end = match.end() + 4
        (distance,) = struct.unpack_from("<i", code, match.end())
        through = match.end() - match.start() == 2
        yield section.address + match.start(), section.address + end + distance, through


def plt_stubs(image: Image, filled: dict[int, str]) -> dict[int, str]:
    """The address of each linker stub (PLT entry), with the name of the function that it jumps
    to.
    """
    found = {}
    for section in image.sections:
        if not (section.flags & SHF_EXECINSTR and section.name.startswith(".plt")):
            continue
        for start, target, through in transfers(image, section):
            if through and target in filled:
                found[start & ~7] = filled[target]  # a stub may begin with endbr64
    return found


def calls(image: Image, names: list[str]) -> Counter[str]:
    """The number of calls of each imported function in the machine code."""
    filled = got_slots(image, names)
    behind = plt_stubs(image, filled)
    counted: Counter[str] = Counter()
    for section in image.code():
        for _, target, through in transfers(image, section):
            name = (filled if through else behind).get(target)
            if name is not None:
                counted[name] += 1
    return counted
