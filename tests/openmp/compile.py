# SPDX-License-Identifier: BSD-3-Clause
"""Compiles MPI programs with OpenMP by a chosen compiler."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from harness.launch import COMPILED
from harness.making import made
from manyhands_bench.mpis import MpiBuild

# The MPI wrapper of each compiler, and the last part of the names of the variables (MPICH_CC,
# OMPI_CC ...) that choose the compiler of the wrapper.
CHOICE = {
    "gcc": ("mpicc", "CC"),
    "clang-14": ("mpicc", "CC"),
    "g++": ("mpicxx", "CXX"),
    "gfortran": ("mpif90", "FC"),
}


def _wrapper(mpi: MpiBuild, kind: str) -> Path:
    name = mpi.mpicc.name.replace("mpicc", kind)
    return mpi.mpicc.with_name(name)


def _flags(compiler: str) -> list[str]:
    if compiler != "clang-14":
        return ["-fopenmp", "-lm"]
    # The loader does not find the OpenMP run time of Debian's clang by itself.
    folder = "/usr/lib/llvm-14/lib"
    return ["-fopenmp", "-lm", f"-L{folder}", f"-Wl,-rpath,{folder}", "-l:libatomic.so.1"]


def compiled_marked(mpi: MpiBuild, compiler: str, level: str, source: Path) -> Path:
    """Compiles a program with ws directives by mhcc or mhfort, which calls the MPI library's
    wrapper.
    """
    ours = "mhfort" if compiler == "gfortran" else "mhcc"
    command = [sys.executable, "-c", f"from manyhands_compilers.main import {ours}; {ours}()"]
    return _compiled([*command, "--mpi", str(mpi.mpicc)], mpi, compiler, level, source)


def compiled_openmp(
    mpi: MpiBuild, compiler: str, level: str, source: Path, debug: str = "-g"
) -> Path:
    """Returns the program, compiled again if the source is newer."""
    wrapper = _wrapper(mpi, CHOICE[compiler][0])
    if not wrapper.exists():
        pytest.skip(f"{wrapper} is not there")
    return _compiled([str(wrapper)], mpi, compiler, level, source, debug)


def compiled_library(compiler: str, source: Path, kind: str, flags: list[str]) -> Path:
    """Returns a shared library without MPI; `kind` tells the libraries of one source apart."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")

    def command(library: Path) -> list[str]:
        words = [compiler, "-O2", "-g", "-fPIC", "-shared", *flags, "-o", str(library), str(source)]
        return [*words, *_flags(compiler)]

    return made(COMPILED / f"lib{source.stem}-{compiler}-{kind}.so", [source], command, 120)


def _compiled(
    wrapper: list[str], mpi: MpiBuild, compiler: str, level: str, source: Path, debug: str = "-g"
) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    variable = CHOICE[compiler][1]
    choose = {f"MPICH_{variable}": compiler, f"OMPI_{variable}": compiler}
    env = ["env", *(f"{key}={value}" for key, value in choose.items())]

    def command(program: Path) -> list[str]:
        words = [*env, *wrapper, level, debug, "-o", str(program), str(source)]
        return [*words, *_flags(compiler)]

    program = COMPILED / mpi.name / f"{source.stem}-{source.suffix[1:]}-{compiler}{level}{debug}"
    return made(program, [source], command, 300)
