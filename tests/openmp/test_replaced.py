# SPDX-License-Identifier: BSD-3-Clause
"""Code that is loaded where other code was is not taken for it: its regions are decided on anew."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from harness.launch import Arm, run
from manyhands_bench.mpis import MpiBuild

from openmp.compile import compiled_library, compiled_openmp
from openmp.test_matrix import ends

HERE = Path(__file__).parent
MODES = {
    "dynamic": ("dynamic,1", {"MH_OPENMP": "1", "OMP_NUM_THREADS": "1"}),
    "static": ("static", {"MH_OPENMP": "static", "OMP_NUM_THREADS": "8"}),
}


def place_of_region(library: Path) -> str:
    """Returns the offset of the region's function in the library."""
    symbols = subprocess.run(["nm", str(library)], capture_output=True, text=True, check=True)
    lines = [line.split() for line in symbols.stdout.splitlines()]
    names = ("kernel._omp_fn.0", ".omp_outlined.")
    return next(words[0] for words in lines if words[-1] in names)


@pytest.mark.under("mpich4")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compiler", ["gcc", "clang-14"])
def test_code_where_other_code_was_is_decided_on_anew(
    mpi: MpiBuild, helped: Arm, compiler: str, mode: str
) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", HERE / "replaced.c")
    schedule, env = MODES[mode]
    # Functions far apart begin at the same place, whatever they do.
    flags = ["-falign-functions=2048", f"-DSCHEDULE={schedule}"]
    kernels = [
        compiled_library(
            compiler, HERE / "kernels.c", f"{mode}-{kind}", [*flags, f"-DKERNEL={kind}"]
        )
        for kind in (1, 2)
    ]
    if place_of_region(kernels[0]) != place_of_region(kernels[1]):
        pytest.skip(f"{compiler} puts the regions of two libraries at different places")
    done = run(mpi, helped, 2, [str(program), *map(str, kernels)], env, 60)
    if reason := done.skipped():
        pytest.skip(reason)
    assert ends(done) == {"first": ("ok", "joined"), "second": ("ok", "alone")}, done.told()
