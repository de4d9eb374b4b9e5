# SPDX-License-Identifier: BSD-3-Clause
"""The choice of the compiler: that of an MPI library, or a plain one.

The order is: `--mpi NAME` or `--mpi PATH`; MH_CC, MH_CXX or MH_FC, a command that may have
arguments (`MH_CC="gcc-12 -m64"`); the MPI compiler on the PATH. The user names an MPI library by
its C compiler, whatever the language: its compilers for C++ and Fortran are in the same folder.
"""

from __future__ import annotations

import os
import subprocess

VARIABLES = {"mhcc": "MH_CC", "mhc++": "MH_CXX", "mhfort": "MH_FC"}
MPI_NAMES = {
    "mhcc": ("mpicc",),
    "mhc++": ("mpicxx", "mpic++", "mpiCC"),
    "mhfort": ("mpifort", "mpif90", "mpif77"),
}
PLAIN = {"mhcc": "gcc", "mhc++": "g++", "mhfort": "gfortran"}
NEEDS = {
    "mhcc": "a C compiler and an MPI with its headers",
    "mhc++": "a C++ compiler and an MPI with its headers",
    "mhfort": "compilers for C and Fortran and an MPI with its modules",
}
FAMILIES = ("mpich", "openmpi")


class NoCompiler(Exception):
    """There is no compiler; the text has the remedy."""


def executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def on_path(*names: str) -> list[str]:
    """All executables of these names on the PATH, those of the first name first."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = [os.path.join(folder or ".", name) for name in names for folder in folders]
    return [path for path in paths if executable(path)]


def first(name: str) -> str | None:
    """The path of the program that the first word of a command names."""
    if "/" in name:
        return name if executable(name) else None
    return next(iter(on_path(name)), None)


def is_openmpi(path: str) -> bool:
    """True for Open MPI's compilers, which know --showme:version; other compilers fail."""
    command = [path, "--showme:version"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    return result.returncode == 0 and b"Open MPI" in result.stdout + result.stderr


def of_family(kind: str, family: str) -> str:
    named = on_path(*(f"{name}.{family}" for name in MPI_NAMES[kind]))
    for path in named or on_path(*MPI_NAMES[kind]):
        if named or is_openmpi(path) == (family == "openmpi"):
            return path
    raise NoCompiler(
        f"--mpi {family}: no {MPI_NAMES[kind][0]} of this MPI is on the PATH; install the MPI, or "
        "give the path of its mpicc"
    )


def beside(kind: str, given: str) -> str:
    """The compiler for `kind` that belongs to an MPI library, given by its C compiler or its
    folder.
    """
    if os.path.isdir(given):
        folders = (given, os.path.join(given, "bin"))
        paths = [os.path.join(folder, name) for folder in folders for name in MPI_NAMES[kind]]
    else:
        folder, name = os.path.split(given)
        own = any(name.startswith(mpi) for mpi in MPI_NAMES[kind]) or not name.startswith("mpicc")
        names = [name] if own else [name.replace("mpicc", mpi, 1) for mpi in MPI_NAMES[kind]]
        paths = [os.path.join(folder, name) for name in names]
    for path in paths:
        found = first(path)
        if found:
            return found
    raise NoCompiler(
        f"--mpi {given}: {paths[0]} does not exist or cannot be executed; give mpich, openmpi or "
        "the path of an mpicc"
    )


def compiler(kind: str, mpi: str | None) -> list[str]:
    """The compiler command for `mhcc`, `mhc++` or `mhfort`."""
    if mpi is not None:
        return [of_family(kind, mpi) if mpi in FAMILIES else beside(kind, mpi)]
    named = os.environ.get(VARIABLES[kind], "").split()
    if named:
        if first(named[0]) is None:
            raise NoCompiler(
                f"{VARIABLES[kind]}={' '.join(named)}: cannot find {named[0]}; set "
                f"{VARIABLES[kind]} to a compiler"
            )
        return named
    for path in on_path(*MPI_NAMES[kind]):
        return [path]
    raise NoCompiler(
        f"{MPI_NAMES[kind][0]} is not on the PATH: install an MPI, name one with --mpi PATH, or "
        f"set {VARIABLES[kind]}={PLAIN[kind]} for a program without MPI"
    )


def check_fortran(command: list[str]) -> None:
    """Refuses Fortran compilers other than gfortran: fortran.py knows only gfortran's
    OpenMP calls.
    """
    words = [*command, "--version"]
    answer = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True).stdout
    if b"GNU Fortran" not in answer:
        name = next((line for line in os.fsdecode(answer).splitlines() if line), command[0])
        raise NoCompiler(
            f"{' '.join(command)} is '{name.strip()}', but shared loops of Fortran need gfortran: "
            "set MH_FC=gfortran, or give --mpi an MPI whose mpifort calls gfortran"
        )


def c_compiler() -> list[str]:
    """A compiler for the few lines of C that mhfort compiles (linking.STUB)."""
    named = os.environ.get("MH_CC", "").split()
    for command in (named, ["cc"], ["gcc"], ["clang"], ["mpicc"]):
        if command and first(command[0]):
            return command
    raise NoCompiler("mhfort also needs a C compiler: install gcc, or set MH_CC")
