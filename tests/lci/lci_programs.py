# SPDX-License-Identifier: BSD-3-Clause
"""The folders of programs of LCI, and the command that compiles a program."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "lib"
GRAPH = ROOT / "examples" / "graph"
# Headers and libraries of the repository. A change of one makes each test program out of date.
SOURCES = [
    *(ROOT / "include" / "manyhands").rglob("*.hpp"),
    LIBRARY / "libmanyhands-lci.so",
    LIBRARY / "libmanyhands-ult.so",
]


def command_for(source: Path, target: Path, compiler: str = "g++", *options: str) -> list[str]:
    """Returns the compiler's command. Warnings are errors, except with the headers of an MPI."""
    command = [compiler, "-std=c++20" if source.suffix == ".cpp" else "-std=c11", "-O1"]
    command += [] if "mpi" in compiler else ["-Wall", "-Wextra", "-Werror"]
    command += [*options, str(source), f"-I{ROOT / 'include'}", f"-L{LIBRARY}"]
    command += [f"-Wl,-rpath,{LIBRARY}", "-lmanyhands-lci", "-lmanyhands-ult"]
    return [*command, "-o", str(target)]
