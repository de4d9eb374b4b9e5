# SPDX-License-Identifier: BSD-3-Clause
"""Program files: their kind, and the MPI library that they will load.

A *program* is the word that the user gives after the launcher's options. Its kind decides whether a
preloaded library reaches it at all (a static, 32-bit or set-user-ID program is out of reach). The
kind also decides how the program's MPI library is found: from the dynamic linker for a linked
program, from the interpreter for Python, from the following words for a wrapper such as `numactl`.
Nothing is guessed: an unknown fact is None.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import stat
import struct
import subprocess
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Family(str, Enum):
    """An application binary interface of MPI. The value is part of the name of our variant for
    it.
    """

    MPICH = "mpich"
    OPENMPI = "openmpi"
    ABI = "abi"

    @property
    def title(self) -> str:
        return {"mpich": "MPICH", "openmpi": "Open MPI", "abi": "standard-ABI MPI"}[self.value]


# Patterns of the file names of an MPI library for C, each with the family of the library. The first
# pattern that matches counts.
LIBRARY_NAMES = [
    (re.compile(r"libmpi_abi\.so(\.\d+)*$"), Family.ABI),
    (re.compile(r"libmpi\.so\.(?:2|3|4)0(\.\d+)*$"), Family.OPENMPI),
    (re.compile(r"libmpi\.so\.12(\.\d+)*$"), Family.MPICH),
    (re.compile(r"libmpich(_\w+)?\.so(\.\d+)*$"), Family.MPICH),
    (re.compile(r"libmpi_(cray|intel|gnu)\w*\.so(\.\d+)*$"), Family.MPICH),
]


@dataclass(frozen=True)
class MpiLibrary:
    path: Path
    family: Family


def library_from(path: str | Path) -> MpiLibrary | None:
    """The MPI library in this file, judged by the file's name."""
    name = Path(path).name
    for pattern, family in LIBRARY_NAMES:
        if pattern.match(name):
            return MpiLibrary(Path(path), family)
    return None


# --- the file of the program ------------------------------------------------------------------


class NotThere(Exception):
    """No file has that name, neither as a path nor on the PATH."""


class NotExecutable(Exception):
    """The file exists but cannot be executed; the text has the reason."""


def locate(word: str) -> Path:
    """The file that executing `word` would run, found as execvp finds it."""
    if "/" not in word:
        found = shutil.which(word)
        if found is None:
            raise NotThere(word)
        return Path(found)
    path = Path(word)
    if not path.exists():
        raise NotThere(word)
    if path.is_dir():
        raise NotExecutable("it is a directory")
    if not os.access(path, os.X_OK):
        raise NotExecutable("it lacks permission to execute (chmod +x)")
    return path


def as_word(path: Path) -> str:
    """The path as a word that no command takes for an option or looks up on the PATH."""
    return str(path) if path.is_absolute() else f"./{path}"


@dataclass(frozen=True)
class Elf:
    bits: int
    dynamic: bool


def elf_of(path: Path) -> Elf | None:
    """The facts of an executable that decide about preloading; None if it is not a whole ELF file,
    or may not be read.
    """
    try:
        return _read_elf(path)
    except (OSError, OverflowError, struct.error):
        return None


def _read_elf(path: Path) -> Elf | None:
    with path.open("rb") as file:
        ident = file.read(16)
        if len(ident) < 16 or ident[:4] != b"\x7fELF":
            return None
        bits = 64 if ident[4] == 2 else 32
        order = "<" if ident[5] == 1 else ">"
        # Offset and type of two groups of fields in the ELF header: e_phoff, which is the offset of
        # the program headers in the file; then e_phentsize and e_phnum, which are their size and
        # number.
        layout = ((32, "Q"), (54, "HH")) if bits == 64 else ((28, "I"), (42, "HH"))
        file.seek(layout[0][0])
        (offset,) = struct.unpack(
            order + layout[0][1], file.read(struct.calcsize("=" + layout[0][1]))
        )
        file.seek(layout[1][0])
        size, count = struct.unpack(order + "HH", file.read(4))
        file.seek(offset)
        headers = file.read(size * count)
    kinds = [
        struct.unpack_from(order + "I", headers, size * i)[0]
        for i in range(min(count, len(headers) // size if size else 0))
    ]
    interpreter = 3  # PT_INTERP: a dynamic linker loads the program's libraries
    return Elf(bits, interpreter in kinds)


def interpreter_of(path: Path) -> list[str]:
    """The words of the `#!` line, without a leading env; empty if the file has no such line, or may
    not be read.
    """
    try:
        with path.open("rb") as file:
            line = file.readline(256)
    except OSError:
        return []
    if not line.startswith(b"#!"):
        return []
    words = line[2:].decode(errors="replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S" and "=" not in word]
    return words


def keeps_preload_out(path: Path) -> str | None:
    """The reason why LD_PRELOAD cannot reach the program, or None."""
    mode = path.stat().st_mode
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return "it is a set-user-ID or set-group-ID program"
    try:
        os.getxattr(path, "security.capability")
        return "it has file capabilities"
    except OSError:
        pass
    elf = elf_of(path)
    if elf is None:
        return None
    if elf.bits == 32:
        return "it is a 32-bit program"
    if not elf.dynamic:
        return "it is statically linked"
    return None


# --- which MPI library the program uses -------------------------------------------------------


def without_preload() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}


def output_of(command: list[str], seconds: float = 20) -> str:
    """Standard output and error of a command in one text; empty if the command cannot run or takes
    longer than `seconds`.
    """
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            env=without_preload(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.decode(errors="replace")


def linked_mpi(path: Path) -> MpiLibrary | None:
    """The MPI library that the dynamic linker would load for this program file."""
    for line in output_of(["ldd", as_word(path)]).splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        library = library_from(name) if arrow else None
        if library is None:
            continue
        target = rest.split(" (")[0]
        found = target.startswith("/")
        return MpiLibrary(Path(target) if found else library.path, library.family)
    return None


# A Python program that prints the path of the MPI library that mpi4py uses. Importing mpi4py.MPI
# loads the library. With rc.initialize off, the import does not call MPI_Init.
ASK_PYTHON = """
import sys
try:
    from mpi4py import rc
    rc.initialize = rc.finalize = False
    from mpi4py import MPI
except Exception as error:
    sys.exit(str(error))
for line in open("/proc/self/maps"):
    path = line.rstrip("\\n").split(maxsplit=5)[5:]
    if path and "libmp" in path[0]:
        print("MPI:" + path[0])
"""


def python_mpi(python: str) -> MpiLibrary | None:
    """The MPI library that mpi4py loads in the interpreter `python`."""
    for line in output_of([python, "-c", ASK_PYTHON]).splitlines():
        library = library_from(line[4:]) if line.startswith("MPI:") else None
        if library is not None:
            return library
    return None


PYTHON = re.compile(r"^(python|pypy)[\d.]*t?$")


@functools.cache
def mpi_of_file(path: Path) -> MpiLibrary | None:
    if PYTHON.match(path.name):
        return python_mpi(as_word(path))
    words = interpreter_of(path)
    if words and PYTHON.match(Path(words[0]).name):
        return python_mpi(words[0])
    return None if words else linked_mpi(path)


def mpi_of(words: list[str]) -> MpiLibrary | None:
    """The MPI library of a command: that of its program, or of the program that its wrapper
    starts.
    """
    for word in words[:10]:
        try:
            library = mpi_of_file(locate(word))
        except (NotThere, NotExecutable, OSError):
            continue
        if library is not None:
            return library
    return None
