# SPDX-License-Identifier: BSD-3-Clause
"""Builds and runs the measured programs of task collections.

The caller chooses the folder of the programs. Limit: libraries of this checkout (`make build`).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from manyhands_bench.mpis import MpiBuild

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-O3", "-std=c++20", "-DOMPI_SKIP_MPICXX"]
FLAGS += [f"-I{ROOT}/{folder}" for folder in ("include", "src", "libs")]


def _mpicxx(mpi: MpiBuild) -> str:
    return str(mpi.mpicc).replace("mpicc", "mpicxx")


def make_overhead(mpi: MpiBuild, folder: Path) -> None:
    """Make `overhead`, which times single operations of a collection."""
    folder.mkdir(parents=True, exist_ok=True)
    link = [f"-L{ROOT}/build/lib", f"-Wl,-rpath,{ROOT}/build/lib", "-lmanyhands-tasks"]
    source = Path(__file__).parent / "overhead.cpp"
    command = [_mpicxx(mpi), *FLAGS, str(source), *link, "-o", str(folder / "overhead")]
    subprocess.run(command, check=True)


def make_example(mpi: MpiBuild, folder: Path, example: str, *targets: str) -> None:
    """Make an example, or some of its programs."""
    make = ["make", "-s", f"MPICXX={_mpicxx(mpi)}", f"OUT={folder}"]
    make += ["-C", str(ROOT / "examples" / example)]
    subprocess.run([*make, *(f"{folder}/{target}" for target in targets)], check=True)


def output(command: list[str], mpi: MpiBuild, limit_s: float, **environment: str) -> str:
    """The output of the program. Raises if the program fails or runs longer than `limit_s`."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=limit_s,
        env={**os.environ, **mpi.environment(), **environment},
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout
