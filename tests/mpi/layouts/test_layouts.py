# SPDX-License-Identifier: BSD-3-Clause
"""Compares the layout engine with MPI_Pack, MPI_Unpack and MPI_Pack_external of every MPI build.

layouts.c links the MPI and, as an archive, the engine with the code that decodes datatypes. The
library's summary tells whether the engine packs for programs.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from harness.launch import QUICK, ROOT, Arm, compiled, run, with_heap
from manyhands_bench.mpis import MpiBuild

HERE = Path(__file__).parent


# A last-level cache of 0 bytes means an unknown size. A cache of two bytes selects the packing
# loops for data that fits in no cache.
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


@pytest.mark.parametrize("heap", [False, True], ids=["own memory", "shared heap"])
def test_programs_pack_by_layouts(mpi: MpiBuild, helped: Arm, heap: bool) -> None:
    name = "packing_gives_the_librarys_bytes_and_errors"
    program = compiled(mpi, name, [HERE.parent / f"{name}.c"])
    assert packed_by_us(mpi, with_heap(helped) if heap else helped, program) > 0


FORTRAN = """
program packing
  use mpi
  implicit none
  integer, parameter :: blocks = BLOCKS, length = LENGTH
  integer :: ierr, type, position, round, i
  double precision :: memory(length + 4, blocks), packed(length, blocks)
  call MPI_Init(ierr)
  call MPI_Type_vector(blocks, length, length + 4, MPI_DOUBLE_PRECISION, type, ierr)
  call MPI_Type_commit(type, ierr)
  do i = 1, blocks
    memory(:, i) = i
  end do
  do round = 1, 3
    packed = 0
    position = 0
    call MPI_Pack(memory, 1, type, packed, 8 * size(packed), position, MPI_COMM_WORLD, ierr)
    do i = 1, blocks
      if (any(packed(:, i) /= i)) call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
    end do
    if (position /= 8 * size(packed)) call MPI_Abort(MPI_COMM_WORLD, 4, ierr)
  end do
  call MPI_Comm_rank(MPI_COMM_WORLD, i, ierr)
  call MPI_Finalize(ierr)
  if (i == 0) print '(A)', 'PASS'
end program
"""


# The type of the first case has short blocks (of one number); that of the second case has blocks
# that Open MPI packs nearly as fast as the layout engine.
@pytest.mark.under(*QUICK)  # the wheels have no Fortran
@pytest.mark.parametrize(("blocks", "length"), [(900, 1), (100, 16)])
def test_fortran_programs_pack_by_layouts(
    mpi: MpiBuild, helped: Arm, tmp_path: Path, blocks: int, length: int
) -> None:
    compiler = mpi.mpicc.with_name(mpi.mpicc.name.replace("mpicc", "mpifort"))
    if not compiler.exists() or shutil.which("gfortran") is None:
        pytest.skip(f"{mpi.name} or gfortran is not installed for Fortran")
    (tmp_path / "packing.f90").write_text(
        FORTRAN.replace("BLOCKS", str(blocks)).replace("LENGTH", str(length))
    )
    program = tmp_path / "packing"
    subprocess.run([compiler, tmp_path / "packing.f90", "-o", program], check=True, cwd=tmp_path)
    assert packed_by_us(mpi, helped, program) > 0
