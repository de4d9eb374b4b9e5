# SPDX-License-Identifier: BSD-3-Clause
"""Compiles the measured programs, by the compiler wrappers of an MPI build.

A wrapper calls its default compiler or the compiler that a `Way` names. Binaries are in
build/bench/MPI/ of the checkout, one for each program and way. A program is compiled again if a
source is newer than the binary.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from manyhands_bench.case import Way
from manyhands_bench.mpis import SIMULATED, MpiBuild


class LaunchError(Exception):
    """A program could not be compiled or run."""


@dataclass(frozen=True)
class Sources:
    folder: str
    files: tuple[str, ...]
    fortran: str = ""  # source of the same program in Fortran, which needs `c_files`, too
    c_files: tuple[str, ...] = ()
    openmp: bool = False
    flags: tuple[str, ...] = ()
    marked_flags: tuple[str, ...] = ()  # for marked loops, in place of `flags`


def _bench(program: str) -> Sources:
    return Sources("bench/mpi", (f"{program}.c", "measure.c"))


def _example(*files: str, flags: tuple[str, ...] = ()) -> Sources:
    """A program of examples/workshare. Its main file is the first."""
    common = ("-D_POSIX_C_SOURCE=200809L", "-ffp-contract=off", *flags)
    return Sources(
        "examples/workshare",
        tuple(f"{name}.c" for name in (*files, "options", "json", "series")),
        openmp=True,
        flags=(*common, "-DWORKSHARE=openmp"),
        marked_flags=(*common, "-DWORKSHARE=shared"),
    )


_STENCIL = ("main", "grid", "halo", "heat", "membench", "options", "output", "times")
_FINITE_ELEMENTS = ("mesh", "element", "matrix", "solver")
_PLAIN_PROGRAMS = (
    "latency",
    "onesided",
    "threads",
    "waiters",
    "streams",
)
PROGRAMS = {program: _bench(program) for program in _PLAIN_PROGRAMS} | {
    "pingpong": Sources("bench/mpi", ("pingpong.c", "mapped.c", "turns.c", "measure.c")),
    "collectives": Sources("bench/mpi", ("collectives.c", "mapped.c", "measure.c")),
    "objects": Sources("bench/mpi", ("objects.c", "turns.c", "measure.c")),
    "loops": Sources(
        "bench/mpi",
        ("loops.c", "empty.c", "stamps.c", "measure.c"),
        fortran="loops.F90",
        c_files=("stamps.c", "measure.c"),
        openmp=True,
        marked_flags=("-DMARKED",),
    ),
    "noncontiguous": Sources(
        "bench", ("mpi/noncontiguous.c", "mpi/turns.c", "mpi/measure.c", "layout/types.c")
    ),
    "bspmm": Sources("examples/bspmm", ("main.c", "matrix.c")),
    "stencil": Sources(
        "examples/stencil",
        tuple(f"{name}.c" for name in _STENCIL),
        flags=("-D_POSIX_C_SOURCE=200809L", "-ffp-contract=off"),
    ),
    "triangles": _example("triangles", "graph"),
    "finite_elements": _example("finite_elements", *_FINITE_ELEMENTS),
    "finite_elements_static": _example(
        "finite_elements", *_FINITE_ELEMENTS, flags=("-DSTATIC_LOOPS",)
    ),
    "conjugate_gradients": _example("conjugate_gradients", "points", "mesh", "trials"),
    "hydrodynamics": _example("hydrodynamics", "blast", "hexahedron", "mesh", "trials"),
}
# The address of a loop's code may cost 6 % (triangle counting). With aligned functions and loops,
# builds of the same source by different commands do not differ by that.
_C_FLAGS = ("-std=gnu11", "-O3", "-Wall", "-Wextra", "-falign-functions=64", "-falign-loops=64")
_FORTRAN_FLAGS = ("-O3", "-Wall")
# GCC takes MPI_STATUSES_IGNORE of MPICH's headers for a buffer of length 0, and would warn.
_GCC_FLAGS = ("-Wno-stringop-overflow",)
# The folder of the OpenMP run time of Debian's clang. The loader finds this folder only through an
# rpath in the program.
_LLVM = Path("/usr/lib/llvm-14/lib")


def _command_of(compiler: str) -> str | None:
    """The command of a compiler, or None if it is not installed. Clang's command may have a version
    in its name.
    """
    names = ("clang", "clang-14") if compiler == "clang" else (compiler,)
    return next((name for name in names if shutil.which(name)), None)


def _mpifort(build: MpiBuild) -> Path:
    return build.mpicc.with_name(build.mpicc.name.replace("mpicc", "mpifort"))


def lacking(build: MpiBuild, way: Way) -> str | None:
    """The reason why this build cannot compile in the given way, or None."""
    if way.compiler and _command_of(way.compiler) is None:
        return f"{way.compiler} is not installed"
    if way.compiler == "gfortran" and not _mpifort(build).exists():
        return f"{build.name} has no mpifort"
    return None


def compile_program(build: MpiBuild, checkout: Path, program: str, way: Way = Way()) -> Path:
    """The binary of a program; compiles it if a source is newer. Raises LaunchError."""
    if build is SIMULATED:
        return _built(checkout, program)
    known = PROGRAMS[program]
    folder = checkout / "build" / "bench" / build.name
    folder.mkdir(parents=True, exist_ok=True)
    binary = folder / "-".join([program, *way.name.split()])
    sources = checkout / known.folder
    if binary.exists() and _newest(sources, known) <= binary.stat().st_mtime:
        return binary
    if way.compiler == "gfortran":
        inputs = [str(sources / known.fortran), *_objects(build, sources, known, folder)]
        command = [*_driver(build, way), *_FORTRAN_FLAGS, *inputs]
    else:
        inputs = [str(sources / name) for name in known.files]
        command = [*_driver(build, way), *_c_flags(way.compiler), *inputs]
    command += _openmp_flags(known, way)
    # The compiler writes a temporary file, which is renamed at the end. Otherwise another process
    # that measures at the same time could run an incomplete program.
    fresh = binary.with_name(f"{binary.name}.{os.getpid()}")
    _run([*command, "-lm", "-o", str(fresh)], way, folder)
    fresh.replace(binary)
    return binary


def _built(checkout: Path, program: str) -> Path:
    binary = checkout / "build" / "bin" / f"mh-{program}"
    if not binary.exists():
        raise LaunchError(f"{binary} is not built: make build")
    return binary


def _newest(sources: Path, known: Sources) -> float:
    """The latest modification time of all files in the folders of the program's sources, headers
    included.
    """
    folders = {(sources / name).parent for name in known.files}
    return max(path.stat().st_mtime for folder in folders for path in folder.iterdir())


def _objects(build: MpiBuild, sources: Path, known: Sources, folder: Path) -> list[str]:
    """The objects of the C part of a Fortran program."""
    made = []
    for name in known.c_files:
        target = folder / f"{Path(name).stem}.o"
        words = [str(build.mpicc), *_c_flags(""), "-c", str(sources / name), "-o", str(target)]
        _run(words, Way(), folder)
        made.append(str(target))
    return made


def _c_flags(compiler: str) -> tuple[str, ...]:
    return _C_FLAGS if compiler == "clang" else (*_C_FLAGS, *_GCC_FLAGS)


def _driver(build: MpiBuild, way: Way) -> list[str]:
    fortran = way.compiler == "gfortran"
    if way.marked:
        kind = "mhfort" if fortran else "mhcc"
        start = f"from manyhands_compilers.main import {kind}; {kind}()"
        return [sys.executable, "-c", start, "--mpi", str(build.mpicc)]
    return [str(_mpifort(build) if fortran else build.mpicc)]


def _openmp_flags(known: Sources, way: Way) -> list[str]:
    if not known.openmp:
        return []
    flags = list(known.marked_flags) if way.marked else ["-fopenmp", *known.flags]
    if way.compiler == "clang" and _LLVM.is_dir():
        flags += [f"-L{_LLVM}", f"-Wl,-rpath,{_LLVM}", "-l:libatomic.so.1"]
    return flags


def _run(command: list[str], way: Way, folder: Path) -> None:
    """Runs the compiler in the binary's folder, since gfortran writes module files to the current
    folder.
    """
    chosen = {}
    if way.compiler:
        language = "FC" if way.compiler == "gfortran" else "CC"
        name = str(_command_of(way.compiler))
        chosen = {f"MPICH_{language}": name, f"OMPI_{language}": name}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=folder, env=os.environ | chosen
    )
    if done.returncode != 0:
        raise LaunchError(f"{shlex.join(command)} failed:\n{done.stderr.strip()}")
