# SPDX-License-Identifier: BSD-3-Clause
"""The threads that do iterations: several helpers at a time, a team with helpers, and no helper
where no core can be lent."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from harness.launch import Arm, run
from manyhands_bench.mpis import MpiBuild

from openmp.compile import compiled_openmp
from openmp.test_matrix import ends

HERE = Path(__file__).parent
COMPILERS = pytest.mark.parametrize("compiler", ["gcc", "clang-14"])


@pytest.mark.under("mpich4", "openmpi4")
@COMPILERS
@pytest.mark.parametrize("own", [1, 2], ids=["alone", "team"])
def test_three_helpers_join_a_loop(mpi: MpiBuild, helped: Arm, compiler: str, own: int) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", HERE / "crowd.c")
    # Each rank is assumed to have a core.
    env = {"MH_OPENMP": "1", "MH_CORES": "4", "OMP_NUM_THREADS": str(own)}
    done = run(mpi, helped, 4, [str(program), "3", str(own)], env, 60)
    assert ends(done) == {"crowd": ("ok", "joined")}, done.told()
    words = next(line for line in done.out.splitlines() if line.startswith("helpers ")).split()
    assert int(words[1]) >= 3 and int(words[3]) == own, done.told()
    assert done.summary is not None, done.told()
    assert done.summary["total"]["loops"]["units_by_others"] >= 3, done.summary


# Two ranks with six cores: the waiting rank lends its own core, and two more by workers. The cores
# are only assumed, but the iterations sleep, so that the real cores are idle.
@pytest.mark.under("mpich4", "openmpi4")
@COMPILERS
def test_a_rank_lends_its_other_cores_as_well(mpi: MpiBuild, helped: Arm, compiler: str) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", HERE / "crowd.c")
    env = {"MH_OPENMP": "1", "MH_CORES": "6", "OMP_NUM_THREADS": "1"}
    done = run(mpi, helped, 2, [str(program), "2", "1"], env, 60)
    assert ends(done) == {"crowd": ("ok", "joined")}, done.told()
    words = next(line for line in done.out.splitlines() if line.startswith("helpers ")).split()
    assert int(words[1]) >= 2, done.told()


def has_namespaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode == 0
    )


@pytest.mark.under("mpich5")  # other launchers do not start there, helped or plain
@pytest.mark.skipif(not has_namespaces(), reason="no pid namespace may be made here")
def test_ranks_in_pid_namespaces_of_their_own_move_nobody(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled_openmp(mpi, "gcc", "-O2", HERE / "pinned.c")
    own = ["unshare", "--pid", "--fork", "--kill-child", str(program)]
    env = {"MH_OPENMP": "1", "OMP_NUM_THREADS": "1"}
    done = run(mpi, helped, 2, own, env, 60)
    assert ends(done) == {"pinned": ("ok", "alone")}, done.told()
    said = "manyhands: loops are not shared: ranks run in different pid namespaces"
    assert done.err.count(said) == 1, done.told()
