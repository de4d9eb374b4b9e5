# SPDX-License-Identifier: BSD-3-Clause
"""The layout engine against MPI_Pack, MPI_Unpack and MPI_Pack_external of every MPI build.

layouts.c links the MPI and, as an archive, the engine with the code that reads datatypes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.launch import ROOT, Arm, compiled, run
from manyhands.benchmarks.mpis import MpiBuild

HERE = Path(__file__).parent


def test_packs_what_the_mpi_packs(mpi: MpiBuild) -> None:
    abi = {"abi": "abi"}.get(mpi.name, "openmpi" if mpi.family == "openmpi" else "mpich")
    archives = [ROOT / "build/lib" / f"libmh-engine-{abi}.a", ROOT / "build/src/libmh_core.a"]
    if not all(archive.exists() for archive in archives):
        pytest.skip("build/lib/libmh-engine-*.a is not built")
    program = compiled(mpi, "layouts", [HERE / "layouts.c"], archives)
    done = run(mpi, Arm("plain"), 1, [str(program), "1", "600"])
    done.expect("PASS")
