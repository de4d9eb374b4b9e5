# SPDX-License-Identifier: BSD-3-Clause
"""The layout engine against MPI_Pack, MPI_Unpack and MPI_Pack_external of every MPI build.

layouts.c links the MPI and, as an archive, the engine with the code that reads datatypes. Whether
the engine does the packing of programs is asked of the library's own summary.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from harness.launch import ROOT, Arm, compiled, run
from manyhands.benchmarks.mpis import MpiBuild

HERE = Path(__file__).parent


# With a last cache of two bytes everything is moved as what no cache holds.
@pytest.mark.parametrize("last_cache", ["0", "2"])
def test_packs_what_the_mpi_packs(mpi: MpiBuild, last_cache: str) -> None:
    abi = {"abi": "abi"}.get(mpi.name, "openmpi" if mpi.family == "openmpi" else "mpich")
    archives = [ROOT / "build/lib" / f"libmh-engine-{abi}.a", ROOT / "build/src/libmh_core.a"]
    if not all(archive.exists() for archive in archives):
        pytest.skip("build/lib/libmh-engine-*.a is not built")
    program = compiled(mpi, "layouts", [HERE / "layouts.c"], archives)
    done = run(mpi, Arm("plain"), 1, [str(program), "1", "600", last_cache])
    done.expect("PASS")


def packed_by_us(mpi: MpiBuild, arm: Arm, program: Path) -> int:
    done = run(mpi, arm, 2, [str(program)])
    done.expect("PASS")
    assert done.summary is not None, done.told()
    return done.summary["total"]["bytes_packed"]


def test_programs_pack_by_layouts(mpi: MpiBuild, helped: Arm) -> None:
    name = "packing_gives_the_librarys_bytes_and_errors"
    program = compiled(mpi, name, [HERE.parent / f"{name}.c"])
    assert packed_by_us(mpi, helped, program) > 0


FORTRAN = """
program packing
  use mpi
  implicit none
  integer :: ierr, type, position, round, i
  double precision :: memory(5, 900), packed(900)
  call MPI_Init(ierr)
  call MPI_Type_vector(900, 1, 5, MPI_DOUBLE_PRECISION, type, ierr)
  call MPI_Type_commit(type, ierr)
  do i = 1, 900
    memory(:, i) = i
  end do
  do round = 1, 3
    packed = 0
    position = 0
    call MPI_Pack(memory, 1, type, packed, 7200, position, MPI_COMM_WORLD, ierr)
    do i = 1, 900
      if (packed(i) /= i .or. position /= 7200) call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
    end do
  end do
  call MPI_Comm_rank(MPI_COMM_WORLD, i, ierr)
  call MPI_Finalize(ierr)
  if (i == 0) print '(A)', 'PASS'
end program
"""


def test_fortran_programs_pack_by_layouts(mpi: MpiBuild, helped: Arm, tmp_path: Path) -> None:
    compiler = mpi.mpicc.with_name(mpi.mpicc.name.replace("mpicc", "mpifort"))
    if not compiler.exists() or shutil.which("gfortran") is None:
        pytest.skip(f"{mpi.name} has no Fortran here")
    (tmp_path / "packing.f90").write_text(FORTRAN)
    program = tmp_path / "packing"
    subprocess.run([compiler, tmp_path / "packing.f90", "-o", program], check=True, cwd=tmp_path)
    assert packed_by_us(mpi, helped, program) > 0
