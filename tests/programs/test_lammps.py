# SPDX-License-Identifier: BSD-3-Clause
"""Runs the melt example with Debian's LAMMPS: the thermodynamic output is the same as without help.

The box of the example is enlarged so that ghost atoms travel in messages of tens of kilobytes. In
one run the threshold is so low that nearly all messages are helped. LAMMPS is deterministic on a
given number of ranks, so the printed numbers must be equal.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness.launch import Arm, Run, run
from manyhands_bench.mpis import MpiBuild

EXAMPLE = Path("/usr/share/lammps/examples/melt/in.melt")
NUMBERS = re.compile(r"^\s*\d+(\s+-?\d[\d.e+-]*){4,}\s*$")


def under_what_it_loads(program: str) -> pytest.MarkDecorator:
    """Returns a mark: the test runs under the MPI for which Debian built the program."""
    path = shutil.which(program)
    if path is None:
        return pytest.mark.skip(reason=f"{program} is not installed")
    text = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    libraries = {"openmpi4": "libmpi.so.40", "mpich4": "libmpich.so.12"}
    return pytest.mark.under(*(name for name in libraries if libraries[name] in text))


def melt(scratch: Path, box: int, steps: int) -> Path:
    text = EXAMPLE.read_text()
    text = re.sub(r"(region\s+box block) .*", rf"\1 0 {box} 0 {box} 0 {box}", text)
    text = re.sub(r"run\s+\d+", f"run {steps}", text)
    text = re.sub(r"thermo\s+\d+", "thermo 5", text)
    path = scratch / "in.melt"
    path.write_text(text)
    return path


def thermo(done: Run) -> list[str]:
    assert done.code == 0, done.told()
    done.expect_clean()
    lines = [line.strip() for line in done.out.splitlines() if NUMBERS.match(line)]
    assert len(lines) >= 5, done.told()
    return lines


@under_what_it_loads("lmp")
@pytest.mark.skipif(not EXAMPLE.exists(), reason="lammps-examples is not installed")
@pytest.mark.parametrize("threshold", ["64K", "4K"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_melt_gives_the_same_numbers(
    mpi: MpiBuild, helped: Arm, tmp_path: Path, ranks: int, threshold: str
) -> None:
    program = ["lmp", "-log", "none", "-in", str(melt(tmp_path, 20, 40))]
    plain = thermo(run(mpi, Arm("plain"), ranks, program, timeout_s=100))
    env = {"MH_THRESHOLD": threshold}
    if threshold == "4K":
        env["MH_EXCHANGE_THRESHOLD"] = threshold
    same = thermo(run(mpi, helped, ranks, program, env, timeout_s=100))
    assert same == plain
