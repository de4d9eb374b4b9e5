# SPDX-License-Identifier: BSD-3-Clause
"""Compiles the workshare examples for MPICH and Open MPI, and runs them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyhands.demo.runs import environment
from manyhands_bench.mpis import MpiBuild, Placement, find_builds

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "workshare"
CFLAGS = "-O2 -Werror"


def one_of_each_family() -> dict[str, MpiBuild]:
    """Returns the first MPICH and the first Open MPI that are present."""
    chosen: dict[str, MpiBuild] = {}
    for build in find_builds(SOURCE.parents[1]).values():
        chosen.setdefault(build.family, build)
    return {build.name: build for build in chosen.values()}


BUILDS = one_of_each_family()


@dataclass(frozen=True)
class Programs:
    """The programs of an MPI. A name includes the build: triangular-plain."""

    build: MpiBuild
    folder: Path

    def program(self, name: str) -> Path:
        """Returns the path of a program; the first call compiles the program."""
        path = self.folder / name
        if not path.exists():
            compile_all(self.build, self.folder, str(path))
        return path

    def run(
        self, name: str, ranks: int, *arguments: object, threads: int = 1
    ) -> subprocess.CompletedProcess[str]:
        command = self.build.launch(ranks, Placement.FREE)
        command += [str(self.program(name)), *(str(word) for word in arguments)]
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(self.build) | {"OMP_NUM_THREADS": str(threads)},
        )

    def report(self, name: str, ranks: int, *arguments: object, threads: int = 1) -> dict[str, Any]:
        """Returns the output of --json of a run, which must succeed."""
        done = self.run(name, ranks, *arguments, "--json", "-", threads=threads)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def compile_all(build: MpiBuild, folder: Path, *targets: str, **variables: str) -> None:
    values = {"MPICC": str(build.mpicc), "OUT": str(folder), "CFLAGS": CFLAGS} | variables
    words = [f"{key}={value}" for key, value in values.items()]
    done = subprocess.run(
        ["make", "-s", "-j2", "-C", str(SOURCE), *words, *targets],
        capture_output=True,
        text=True,
        env=environment(build),
    )
    assert done.returncode == 0, done.stderr
