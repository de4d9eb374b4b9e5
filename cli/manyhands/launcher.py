# SPDX-License-Identifier: BSD-3-Clause
"""Launchers: the launcher of an MPI library, and its way to set the environment of the ranks.

A *launcher* is the program that starts the ranks: Hydra's mpiexec (MPICH and its family), Open
MPI's mpiexec, Slurm's srun, or another. The launcher's own options set the environment of the
ranks. The launcher itself is thus never preloaded, and ranks on other machines get the environment,
too. A launcher of unknown kind gets `env KEY=VALUE program` instead.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from manyhands import installation, say
from manyhands.program import Family, MpiLibrary, as_word, output_of


class Kind(str, Enum):
    HYDRA = "hydra"
    OPENMPI = "openmpi"
    SLURM = "slurm"
    OTHER = "other"

    @property
    def title(self) -> str:
        titles = {"hydra": "MPICH", "openmpi": "Open MPI", "slurm": "Slurm", "other": "unknown"}
        return titles[self.value]


@dataclass(frozen=True)
class Launcher:
    path: Path
    kind: Kind


BY_NAME = [
    ("hydra", Kind.HYDRA),
    ("gforker", Kind.OTHER),
    ("orterun", Kind.OPENMPI),
    ("prterun", Kind.OPENMPI),
    ("openmpi", Kind.OPENMPI),
    ("srun", Kind.SLURM),
]
BY_VERSION = [
    ("hydra", Kind.HYDRA),
    ("intel(r) mpi", Kind.HYDRA),
    ("open mpi", Kind.OPENMPI),
    ("openrte", Kind.OPENMPI),
    ("prrte", Kind.OPENMPI),
    ("slurm", Kind.SLURM),
]


@functools.cache
def kind_of(path: Path) -> Kind:
    """The kind of a launcher: by its file name if that tells, otherwise by its version output."""
    for name in (path.name, path.resolve().name):
        for mark, kind in BY_NAME:
            if mark in name:
                return kind
    text = output_of([as_word(path), "--version"], seconds=10).lower()
    return next((kind for mark, kind in BY_VERSION if mark in text), Kind.OTHER)


def matches(kind: Kind, family: Family) -> bool:
    """True if ranks started by a launcher of this kind find each other under this MPI."""
    if kind is Kind.SLURM or kind is Kind.OTHER or family is Family.ABI:
        return True
    return (kind is Kind.OPENMPI) == (family is Family.OPENMPI)


NAMES = {
    Family.MPICH: ("mpiexec.mpich", "mpiexec.hydra", "mpiexec"),
    Family.OPENMPI: ("mpiexec.openmpi", "mpiexec", "prterun", "orterun"),
    Family.ABI: ("mpiexec",),
}


def beside(library: Path, family: Family) -> Iterator[Path]:
    """Launchers in the prefix of an MPI library: for PREFIX/lib/.../libmpi.so.N,
    PREFIX/bin/mpiexec.
    """
    seen = set()
    # Folders above the library are tried as the prefix, first those of its resolved path: Debian's
    # /lib is a link to /usr/lib, and the launchers are in /usr/bin. "/" is never tried.
    for file in (library.resolve(), library):
        for prefix in file.parents[1:-1]:
            for name in NAMES[family]:
                candidate = prefix / "bin" / name
                if candidate not in seen and os.access(candidate, os.X_OK):
                    seen.add(candidate)
                    yield candidate


def on_path(names: tuple[str, ...]) -> Iterator[Path]:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for name in names:
            found = shutil.which(name, path=folder or ".")
            if found:
                yield Path(found)


def candidates(mpi: MpiLibrary | None) -> Iterator[Path]:
    if mpi is not None and mpi.path.is_absolute():
        yield from beside(mpi.path, mpi.family)
    names = NAMES[mpi.family] if mpi is not None else ("mpiexec", "mpirun")
    yield from on_path(names)
    for prefix in installation.embedded_mpi():
        yield prefix / "bin" / "mpiexec"
    if "SLURM_JOB_ID" in os.environ:
        yield from on_path(("srun",))


def choose(mpi: MpiLibrary | None) -> Launcher | None:
    """The launcher for an MPI library; without a library, the launcher that the user's shell would
    find.
    """
    for path in candidates(mpi):
        kind = kind_of(path)
        if mpi is None or matches(kind, mpi.family):
            return Launcher(path, kind)
    return None


# --- the launcher's command line, with the environment of the ranks ---------------------------


# The `env` command takes a program with `=` in its name for a variable to set. With these words
# before the program, `env` starts a shell, and the shell replaces itself by the program.
AFTER_ENV = ["sh", "-c", 'exec "$@"', "sh"]


def compose(
    launcher: Launcher, options: list[str], program: list[str], environment: dict[str, str]
) -> list[str]:
    """The command line that starts `program` with `environment` set for its ranks."""
    start = [as_called(launcher.path)]
    if launcher.kind is Kind.HYDRA:
        given = [word for item in environment.items() for word in ("-genv", *item)]
        return [*start, *given, *options, *program]
    if launcher.kind is Kind.OPENMPI:
        given = [word for key, value in environment.items() for word in ("-x", f"{key}={value}")]
        return [*start, *given, *options, *after_each_colon(program, given)]
    if ":" in program:
        say.fail(
            f"{launcher.path.name} starts several programs with environments of their own: put "
            f"`mh run` before each, as in {launcher.path.name} -n 1 mh run ./a : -n 1 mh run ./b",
            say.USAGE,
        )
    given = ["env", *(f"{key}={value}" for key, value in environment.items())]
    if "=" in program[0]:
        given += AFTER_ENV
    return [*start, *options, *given, *program]


def as_called(path: Path) -> str:
    """The bare name of a launcher if the PATH leads to it, otherwise its path. Open MPI takes an
    absolute path as a --prefix.
    """
    found = shutil.which(path.name)
    return path.name if found and Path(found).resolve() == path.resolve() else as_word(path)


def after_each_colon(words: list[str], given: list[str]) -> list[str]:
    """Repeats `given` after each colon: Open MPI's -x holds for one program of `a : -n 2 b`."""
    result: list[str] = []
    for word in words:
        result.append(word)
        if word == ":":
            result.extend(given)
    return result


def take_preload(options: list[str]) -> tuple[list[str], str | None]:
    """The launcher's options without LD_PRELOAD, and its value, which the caller joins with our
    libraries.
    """
    rest: list[str] = []
    value: str | None = None
    index = 0
    while index < len(options):
        words = options[index : index + 3]
        name = words[0].lstrip("-") if words[0].startswith("-") else ""
        if name in ("genv", "env") and words[1:2] == ["LD_PRELOAD"] and len(words) == 3:
            value = words[2]
            index += 3
        elif name == "x" and len(words) > 1 and words[1].split("=")[0] == "LD_PRELOAD":
            value = words[1].partition("=")[2] or None
            index += 2
        else:
            rest.append(words[0])
            index += 1
    return rest, value
