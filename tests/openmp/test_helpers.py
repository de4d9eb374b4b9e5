# SPDX-License-Identifier: BSD-3-Clause
"""Tests which threads do iterations: several helpers at a time, a team with helpers, and no helper
where no core can be lent."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from harness.launch import Arm, Run, run
from manyhands_bench.mpis import MpiBuild

from openmp.compile import compiled_marked, compiled_openmp
from openmp.test_matrix import ends, written

HERE = Path(__file__).parent
COMPILERS = pytest.mark.parametrize("compiler", ["gcc", "clang-14"])


@pytest.mark.under("mpich4", "openmpi4")
@COMPILERS
@pytest.mark.parametrize("own", [1, 2], ids=["alone", "team"])
def test_three_helpers_join_a_loop(mpi: MpiBuild, helped: Arm, compiler: str, own: int) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", HERE / "crowd.c")
    # MH_CORES says that there are four cores, one for each rank, whatever the machine has.
    env = {"MH_OPENMP": "1", "MH_CORES": "4", "OMP_NUM_THREADS": str(own)}
    done = run(mpi, helped, 4, [str(program), "3", str(own)], env, 60)
    assert ends(done) == {"crowd": ("ok", "joined")}, done.told()
    helpers, team = numbers(done)
    assert helpers >= 3 and team == own, done.told()
    assert done.summary is not None, done.told()
    assert done.summary["total"]["loops"]["units_by_others"] >= 3, done.summary


@pytest.mark.under("mpich4")
@pytest.mark.parametrize("ranks", [3, 5, 6])
def test_every_other_rank_joins_a_loop(mpi: MpiBuild, helped: Arm, ranks: int) -> None:
    program = compiled_openmp(mpi, "gcc", "-O2", HERE / "crowd.c")
    env = {"MH_OPENMP": "1", "MH_CORES": str(ranks), "OMP_NUM_THREADS": "1"}
    done = run(mpi, helped, ranks, [str(program), str(ranks - 1), "1"], env, 60)
    assert ends(done) == {"crowd": ("ok", "joined")}, done.told()
    assert numbers(done)[0] >= ranks - 1, done.told()


# Two ranks with three cores each, of which one waits: it lends its own core, and its workers lend
# its two spare cores. The cores are only assumed (MH_CORES), but the iterations sleep, so that the
# real cores are idle.
@pytest.mark.under("mpich4", "openmpi4")
@COMPILERS
def test_a_rank_lends_its_other_cores_as_well(mpi: MpiBuild, helped: Arm, compiler: str) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", HERE / "crowd.c")
    env = {"MH_OPENMP": "1", "MH_CORES": "6", "OMP_NUM_THREADS": "1"}
    done = run(mpi, helped, 2, [str(program), "2", "1"], env, 60)
    assert ends(done) == {"crowd": ("ok", "joined")}, done.told()
    assert numbers(done)[0] >= 2, done.told()


@pytest.mark.under("mpich4", "openmpi4")
def test_a_rank_that_is_through_helps_in_mpi_finalize(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled_openmp(mpi, "gcc", "-O2", HERE / "crowd.c")
    env = {"MH_OPENMP": "1", "MH_CORES": "4", "OMP_NUM_THREADS": "1"}
    done = run(mpi, helped, 2, [str(program), "1", "1", "finalize"], env, 60)
    assert ends(done) == {"crowd": ("ok", "joined")}, done.told()
    assert done.summary is not None and done.summary["total"]["loops"]["units_by_others"] > 0


@pytest.mark.under("mpich4", "openmpi4")
@pytest.mark.parametrize("how", ["Test", "Testany", "Testall", "Iprobe"])
def test_a_rank_that_does_nothing_but_poll_lends_its_core(
    mpi: MpiBuild, helped: Arm, how: str
) -> None:
    program = compiled_openmp(mpi, "gcc", "-O2", HERE / "crowd.c")
    env = {"MH_OPENMP": "1", "MH_CORES": "2", "OMP_NUM_THREADS": "1"}
    done = run(mpi, helped, 2, [str(program), "1", "1", how], env, 60)
    assert ends(done) == {"crowd": ("ok", "joined")}, done.told()
    assert done.summary is not None and done.summary["total"]["loops"]["units_by_others"] > 0


def numbers(done: Run) -> tuple[int, int]:
    """Returns the fewest helpers and the fewest team threads among the ranks."""
    words = next(line for line in done.out.splitlines() if line.startswith("helpers ")).split()
    return int(words[1]), int(words[3])


# Two ranks with three cores each, both late. No rank waits, so each rank's workers lend its spare
# cores to its own loops.
@pytest.mark.under("mpich4", "openmpi4")
@COMPILERS
def test_spare_cores_of_a_late_rank_work_on_its_own_loop(
    mpi: MpiBuild, helped: Arm, compiler: str
) -> None:
    program = compiled_openmp(mpi, compiler, "-O2", HERE / "crowd.c")
    env = {"MH_OPENMP": "1", "MH_CORES": "6", "OMP_NUM_THREADS": "1"}
    done = run(mpi, helped, 2, [str(program), "2", "1", "all"], env, 60)
    assert ends(done) == {"crowd": ("ok", "joined")}, done.told()
    assert numbers(done)[0] >= 2, done.told()


CROWDED = len(os.sched_getaffinity(0)) + 1
UNSHARED = {
    "one rank": (1, {}),
    "a rank on each node": (2, {"MH_FAKE_NODES": "2"}),
    "more ranks than cores": (CROWDED, {}),
}


def marked_crowd(mpi: MpiBuild, compiler: str) -> Path:
    text = (HERE / "crowd.c").read_text().replace("#pragma omp parallel for", "#pragma ws for")
    return compiled_marked(mpi, compiler, "-O2", written("crowd_marked.c", text))


@pytest.mark.under("mpich4", "openmpi4")
@COMPILERS
@pytest.mark.parametrize("case", UNSHARED)
def test_a_marked_loop_that_is_not_shared_has_the_team_of_an_openmp_loop(
    mpi: MpiBuild, helped: Arm, compiler: str, case: str
) -> None:
    ranks, env = UNSHARED[case]
    words = [str(marked_crowd(mpi, compiler)), "0", "2", "all"]
    done = run(mpi, helped, ranks, words, {**env, "OMP_NUM_THREADS": "2"}, 60)
    assert ends(done) == {"crowd": ("ok", "alone")}, done.told()
    assert numbers(done) == (0, 2), done.told()


@pytest.mark.under("mpich4", "openmpi4")
@COMPILERS
def test_a_marked_loop_that_the_user_leaves_out_has_that_team_too(
    mpi: MpiBuild, helped: Arm, compiler: str
) -> None:
    words = [str(marked_crowd(mpi, compiler)), "0", "2", "all"]
    env = {"MH_OPENMP_EXCLUDE": "*", "OMP_NUM_THREADS": "2"}
    done = run(mpi, helped, 2, words, env, 60)
    assert ends(done) == {"crowd": ("ok", "alone")}, done.told()
    assert numbers(done) == (0, 2), done.told()


# The threads of a marked loop that is not shared may call MPI, but do not take turns. Below
# MPI_THREAD_MULTIPLE Manyhands therefore gives such a loop a single thread.
@pytest.mark.under("mpich4", "openmpi4")
def test_it_has_one_thread_where_mpi_admits_one(mpi: MpiBuild, helped: Arm) -> None:
    env = {"MH_THREAD_LEVEL": "keep", "OMP_NUM_THREADS": "2"}
    done = run(mpi, helped, 1, [str(marked_crowd(mpi, "gcc")), "0", "1"], env, 60)
    assert ends(done) == {"crowd": ("ok", "alone")}, done.told()
    assert numbers(done) == (0, 1), done.told()


def has_namespaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode == 0
    )


@pytest.mark.under("mpich5")  # other launchers fail in a namespace, helped or plain
@pytest.mark.skipif(not has_namespaces(), reason="no pid namespace may be made here")
def test_ranks_in_pid_namespaces_of_their_own_move_nobody(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled_openmp(mpi, "gcc", "-O2", HERE / "pinned.c")
    own = ["unshare", "--pid", "--fork", "--kill-child", str(program)]
    env = {"MH_OPENMP": "1", "OMP_NUM_THREADS": "1"}
    done = run(mpi, helped, 2, own, env, 60)
    assert ends(done) == {"pinned": ("ok", "alone")}, done.told()
    said = "manyhands: loops are not shared: ranks run in different pid namespaces"
    assert done.err.count(said) == 1, done.told()
