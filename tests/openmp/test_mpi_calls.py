# SPDX-License-Identifier: BSD-3-Clause
"""Helpers make MPI calls inside shared loops like their owner, at any thread level."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.launch import Arm, Run, run
from manyhands_bench.mpis import MpiBuild

from openmp.compile import compiled_marked, compiled_openmp
from openmp.test_matrix import written

SOURCE = Path(__file__).parent / "mpi_calls.c"
LIMIT_S = 100
KEPT = {"MH_THREAD_LEVEL": "keep"}
SHARED = {"MH_OPENMP": "1"}
SERIAL = {"OMP_NUM_THREADS": "1"}
RENDEZVOUS = {
    "MH_THRESHOLD": "64K",
    "MH_EXCHANGE_THRESHOLD": "64K",
}  # rendezvous, also in exchanges
FEW_BUILDS = pytest.mark.under("mpich4", "openmpi4")
REFUSED = "in a shared loop: no collective and no one-sided call"


def marked(mpi: MpiBuild) -> Path:
    text = SOURCE.read_text().replace("#pragma omp parallel for", "#pragma ws for")
    text = text.replace("#pragma omp critical", "#pragma ws critical")
    return compiled_marked(mpi, "gcc", "-O2", written("mpi_calls_marked.c", text))


def unmodified(mpi: MpiBuild) -> Path:
    return compiled_openmp(mpi, "gcc", "-O2", SOURCE)


def play(mpi: MpiBuild, arm: Arm, program: Path, words: str, env: dict[str, str]) -> Run:
    return run(mpi, arm, 2, [str(program), *words.split()], SERIAL | RENDEZVOUS | env, LIMIT_S)


def obstacles(done: Run) -> dict[str, int]:
    assert done.summary is not None, done.told()
    return done.summary["total"]["loops"]["regions_excluded"]


def waited(done: Run) -> int:
    """Returns the number of helpers that gave their core back."""
    assert done.summary is not None, done.told()
    return done.summary["total"]["loops"]["units_waited"]


def silent(done: Run) -> None:
    assert "manyhands: " not in done.err, done.told()


@pytest.mark.parametrize("level", ["multiple", "below"])
def test_helpers_call_mpi_in_marked_loops(mpi: MpiBuild, helped: Arm, level: str) -> None:
    env = KEPT if level == "below" else {}
    done = play(mpi, helped, marked(mpi), "none exchange critical wait", env)
    done.expect(f"level {level}", "exchange joined", "critical joined", "wait joined", "PASS")
    silent(done)
    assert waited(done) > 0, done.told()


def test_helpers_call_mpi_in_unmodified_loops(mpi: MpiBuild, helped: Arm) -> None:
    done = play(mpi, helped, unmodified(mpi), "multiple exchange critical wait", SHARED)
    done.expect("level multiple", "exchange joined", "critical joined", "wait joined", "PASS")
    silent(done)
    assert waited(done) > 0, done.told()


@pytest.mark.under("mpich4", "openmpi4")
def test_the_level_can_be_asked_for_from_outside(mpi: MpiBuild, helped: Arm) -> None:
    env = SHARED | {"MH_THREAD_LEVEL": "multiple"}
    done = play(mpi, helped, unmodified(mpi), "none exchange", env)
    done.expect("level multiple", "exchange joined", "PASS")


@pytest.mark.under("mpich4", "openmpi4")
def test_below_multiple_unmodified_loops_with_calls_are_not_shared(
    mpi: MpiBuild, helped: Arm
) -> None:
    done = play(mpi, helped, unmodified(mpi), "none late few exchange", SHARED)
    # In the case "late", the first MPI call comes after helpers have joined. The threads then take
    # turns in the library.
    done.expect("level below", "late joined", "exchange alone", "PASS")
    silent(done)
    assert obstacles(done)["mpi"] == 4, done.told()


@pytest.mark.under("mpich4", "openmpi5")
def test_what_needs_an_order_keeps_unmodified_loops_alone(mpi: MpiBuild, helped: Arm) -> None:
    done = play(mpi, helped, unmodified(mpi), "multiple few allreduce put", SHARED)
    done.expect("allreduce alone", "put alone", "PASS")
    for what in ("allreduce", "put"):
        done.expect(*(f"{what} rank {rank} done 360 refused 0" for rank in (0, 1)))
    silent(done)
    assert obstacles(done)["collectives"] == 4, done.told()


@pytest.mark.parametrize("level", ["multiple", pytest.param("below", marks=FEW_BUILDS)])
def test_what_needs_an_order_is_refused_in_marked_loops(
    mpi: MpiBuild, helped: Arm, level: str
) -> None:
    env, what, call = {
        "multiple": ({}, ["allreduce", "put"], "MPI_Allreduce"),
        "below": (KEPT, ["put", "allreduce"], "MPI_Put"),
    }[level]
    done = play(mpi, helped, marked(mpi), f"none few {' '.join(what)}", env)
    done.expect(f"level {level}", "PASS")
    for rank in (0, 1):
        done.expect(*(f"{one} rank {rank} done 0 refused 360" for one in what))
        assert done.err.count(f"rank {rank} calls {call} {REFUSED}") == 1, done.told()
    assert done.err.count(REFUSED) == 2, done.told()


@pytest.mark.under("mpich4", "openmpi4", "abi")
def test_by_default_a_refused_call_ends_the_job(mpi: MpiBuild, helped: Arm) -> None:
    done = play(mpi, helped, marked(mpi), "none fatal", {})
    assert done.code > 0 and "PASS" not in done.out, done.told()
    assert f"calls MPI_Allreduce {REFUSED}" in done.err, done.told()
    done.expect_clean()


@pytest.mark.under("mpich4")
def test_without_manyhands_the_programs_run_unchanged(mpi: MpiBuild) -> None:
    for program in (marked(mpi), unmodified(mpi)):
        done = play(mpi, Arm("plain"), program, "none few exchange allreduce", {})
        done.expect("exchange alone", "allreduce rank 0 done 360 refused 0", "PASS")
