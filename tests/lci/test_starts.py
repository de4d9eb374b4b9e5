# SPDX-License-Identifier: BSD-3-Clause
"""Tests how ranks of one host meet: each rank has a wrapper of its own, or a launcher runs inside a
rank of another.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from shutil import which

import pytest
from harness.selection import BUILDS
from lci_programs import command_for
from manyhands_bench.mpis import Placement

HERE = Path(__file__).parent
LIMIT_S = 30  # half of the time for which a rank waits for the others
# The wrappers start their words as a child and wait for it. PYTHON closes all file descriptors of
# its child, such as the launcher's socket PMI_FD.
SHELL = '"$@"; exit $?'
PYTHON = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
WRAPPERS = {
    "script": ["sh", "-c", SHELL, "sh"],
    "two scripts": ["sh", "-c", SHELL, "sh", "sh", "-c", SHELL, "sh"],
    "closed files": ["python3", "-c", PYTHON],
    "time": ["/usr/bin/time", "-o", "/dev/null"],
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("starts") / "c_calls"
    subprocess.run(command_for(HERE / "c_calls.c", target, "gcc"), check=True)
    return target


def output_of(words: Sequence[str | Path], **variables: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MH_LCI_")}
    run = subprocess.run(
        words, env={**kept, **variables}, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("launcher", ["mpich4", "openmpi4"])
def test_ranks_meet_though_each_has_a_wrapper(program: Path, launcher: str, wrapper: str) -> None:
    if launcher not in BUILDS:
        pytest.skip(f"{launcher} is not installed")
    if which(WRAPPERS[wrapper][0]) is None:
        pytest.skip(f"{WRAPPERS[wrapper][0]} is not installed")
    mpi = BUILDS[launcher]
    words = [*mpi.launch(2, Placement.FREE), *WRAPPERS[wrapper], program]
    assert output_of(words, **mpi.environment()) == "all good\n" * 2


@pytest.mark.skipif("mpich4" not in BUILDS, reason="mpich4 is not installed")
@pytest.mark.parametrize("wrapper", ["script", "closed files"])
def test_ranks_of_a_launcher_inside_a_rank_meet(program: Path, wrapper: str) -> None:
    mpi = BUILDS["mpich4"]
    inner = [*mpi.launch(2, Placement.FREE), program]
    assert (
        output_of([*mpi.launch(2, Placement.FREE), *WRAPPERS[wrapper], *inner]) == "all good\n" * 4
    )


def test_ranks_without_a_launcher_meet_though_each_has_a_wrapper(program: Path) -> None:
    start = shlex.join([*WRAPPERS["script"], str(program)])
    script = f"for rank in 0 1; do MH_LCI_RANK=$rank MH_LCI_SIZE=2 {start} & done; wait"
    assert output_of(["sh", "-c", script]) == "all good\n" * 2
