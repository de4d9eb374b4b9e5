# SPDX-License-Identifier: BSD-3-Clause
"""Compiles a C++ program that uses task collections, as the guide says, for an MPI build."""

from __future__ import annotations

from pathlib import Path

from harness.launch import ROOT
from harness.making import made
from manyhands_bench.mpis import MpiBuild

LIBRARY = ROOT / "build" / "lib" / "libmanyhands-tasks.so"
FLAGS = "-O2 -g -std=c++20 -Wall -Wextra -Wconversion -Wshadow -Werror".split()
FLAGS += ["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]  # the old C++ bindings warn


def built(build: MpiBuild, source: Path) -> str:
    headers = [*(ROOT / "include" / "manyhands").rglob("*.hpp")]
    compiler = build.mpicc.with_name(build.mpicc.name.replace("mpicc", "mpicxx"))
    folder = LIBRARY.parent

    def command(target: Path) -> list[str]:
        words = [str(compiler), *FLAGS, f"-I{ROOT / 'include'}", str(source), f"-L{folder}"]
        return [*words, f"-Wl,-rpath,{folder}", "-lmanyhands-tasks", "-o", str(target)]

    target = ROOT / "build" / "tests" / "mpi-programs" / build.name / source.stem
    return str(made(target, [source, LIBRARY, *headers], command, 120))
