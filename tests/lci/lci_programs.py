# SPDX-License-Identifier: BSD-3-Clause
"""Where programs of LCI are, and how they are compiled."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "lib"
GRAPH = ROOT / "examples" / "graph"
# What every program is made of.
SOURCES = [
    *(ROOT / "include" / "manyhands").rglob("*.hpp"),
    LIBRARY / "libmanyhands-lci.so",
    LIBRARY / "libmanyhands-ult.so",
]


def command_for(source: Path, target: Path, compiler: str = "g++", *options: str) -> list[str]:
    """Warnings are errors, but for what an MPI's own headers say."""
    command = [compiler, "-std=c++20" if source.suffix == ".cpp" else "-std=c11", "-O1"]
    command += [] if "mpi" in compiler else ["-Wall", "-Wextra", "-Werror"]
    command += [*options, str(source), f"-I{ROOT / 'include'}", f"-L{LIBRARY}"]
    command += [f"-Wl,-rpath,{LIBRARY}", "-lmanyhands-lci", "-lmanyhands-ult"]
    return [*command, "-o", str(target)]
