# SPDX-License-Identifier: BSD-3-Clause
"""Runs Debian's NWChem, with Global Arrays over one-sided MPI (ARMCI-MPI): the energies are the
same.

Debian's NWChem keeps its arrays in windows of MPI. It uses the windows under locks, by puts, gets,
accumulates and a counter, so the test covers one-sided communication in a real application. The
reference is one rank without help. Two ranks are no reference: under MPICH 4.0.2 without help they
end with wrong energies or an abort (allocated windows), and are right with help.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness.launch import Arm, Run, run, with_heap
from manyhands_bench.mpis import MpiBuild
from test_lammps import under_what_it_loads

# Symmetry is off: with it, the molecule would be so small that one rank does all the work.
INPUT = """
permanent_dir {folder}
scratch_dir {folder}
start water
memory total 300 mb
geometry units angstrom noautosym
  O 0.0 0.0 0.1173
  H 0.0 0.7572 -0.4692
  H 0.0 -0.7572 -0.4692
end
basis
  * library 6-31g*
end
scf
  singlet
  rhf
  thresh 1e-8
end
task scf gradient
task mp2 energy
"""
ENERGY = re.compile(r"^\s*Total (SCF|MP2) energy\s*=?\s*(-\d+\.\d+)", re.MULTILINE)
AGREE = 1e-8  # Hartree; the order of sums depends on timing


def energies(done: Run) -> list[float]:
    assert done.code == 0, done.told()
    done.expect_clean()
    found = [float(value) for _, value in ENERGY.findall(done.out)]
    assert len(found) == 3, done.told()
    return found


def water(mpi: MpiBuild, arm: Arm, ranks: int, folder: Path) -> Run:
    folder.mkdir()
    program = "nwchem.mpich" if mpi.family == "hydra" else "nwchem.openmpi"
    path = folder / "water.nw"
    path.write_text(INPUT.format(folder=folder))
    return run(mpi, arm, ranks, [program, str(path)], timeout_s=150)


def gives_the_same_energies(mpi: MpiBuild, helped: Arm, ranks: int, folder: Path) -> None:
    alone = energies(water(mpi, Arm("plain"), 1, folder / "alone"))
    together = water(mpi, helped, ranks, folder / "together")
    assert energies(together) == pytest.approx(alone, abs=AGREE, rel=0)
    assert together.summary is not None
    assert together.summary["total"]["windows_ours"] > 0
    assert together.summary["total"]["windows_left"] == 0
    assert together.summary["total"]["one_sided_operations"] > 1000


# NWChem has a test for each MPI library, because its package is built for one. Only one of the two
# tests uses the shared heap, so both mapped memory and single copies are tested.
@under_what_it_loads("nwchem.mpich")
# Three ranks of MPICH on two cores take a minute, since all of them spin.
@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_energies_are_the_same_under_mpich(
    mpi: MpiBuild, helped: Arm, tmp_path: Path, ranks: int
) -> None:
    gives_the_same_energies(mpi, helped, ranks, tmp_path)


@under_what_it_loads("nwchem.openmpi")
@pytest.mark.parametrize("ranks", [2, 3])
def test_energies_are_the_same_under_open_mpi(
    mpi: MpiBuild, helped: Arm, tmp_path: Path, ranks: int
) -> None:
    gives_the_same_energies(mpi, with_heap(helped), ranks, tmp_path)
