# SPDX-License-Identifier: BSD-3-Clause
"""Tests static loops by virtual threads: each iteration sees the thread number and the team of the
plain run, helpers have joined, and regions that need a real team have a real team.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.launch import Arm, Run, run
from manyhands_bench.mpis import MpiBuild

from openmp import static_cases
from openmp.compile import compiled_openmp
from openmp.test_matrix import Way, ends, written

HERE = Path(__file__).parent
LIMIT_S = 60
STATIC = {"MH_OPENMP": "static", "OMP_NUM_THREADS": "8"}
WAYS = [
    Way("gcc", "-O0"),
    Way("gcc", "-O2"),
    Way("clang-14", "-O2"),
    Way("gcc", "-O2", 2),
    Way("clang-14", "-O2", 2),
]


@pytest.mark.under("mpich4")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_every_static_loop_is_divided_as_in_the_plain_run(
    mpi: MpiBuild, helped: Arm, way: Way
) -> None:
    text = static_cases.program(way.compiler)
    source = written(f"static_{way.compiler}.c", text)
    program = compiled_openmp(mpi, way.compiler, way.level, source)
    # MH_CORES assumes enough cores for all threads of both ranks, whatever the machine has.
    env = {**STATIC, "MH_CORES": str(2 * way.threads)}
    few = [] if way.threads == 1 else ["12"]
    done = run(mpi, helped, 2, [str(program), *few], env, LIMIT_S)
    seen = ends(done)
    assert len(seen) > 100
    assert not [name for name, (right, _) in seen.items() if right != "ok"], done.told()
    wanted = {name for name in seen if static_cases.qualifies(name)}
    joined = {name for name, (_, end) in seen.items() if end == "joined"}
    assert joined <= wanted
    # With several threads of its own, a rank may finish a region before a helper comes, so not
    # every region need have been joined.
    left = {name for name in wanted - joined if static_cases.is_long(name)}
    assert not left if way.threads == 1 else joined, left
    loops = done.summary["total"]["loops"] if done.summary else {}
    assert loops["regions_static"] == loops["regions_shared"] >= len(wanted), loops


@pytest.mark.under("mpich4", "openmpi4")
def test_static_loops_of_fortran(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled_openmp(mpi, "gfortran", "-O2", HERE / "static.f90")
    seen = ends(run(mpi, helped, 2, [str(program)], STATIC, LIMIT_S))
    assert len(seen) == 3
    assert not [name for name, end in seen.items() if end != ("ok", "joined")], seen


def divided(mpi: MpiBuild, arm: Arm, name: str, text: str, **env: str) -> Run:
    source = written(f"divided_{name}.c", text)
    program = compiled_openmp(mpi, "gcc", "-O2", source)
    done = run(mpi, arm, 2, [str(program), "400"], STATIC | env, LIMIT_S)
    assert done.summary is not None, done.told()
    return done


LOOP = "#pragma omp parallel for\nfor (int i = 0; i < n; ++i) {{ {} DO(i); }}"
POINTER = "static void (*volatile hidden)(int) = visit;"
THROUGH_POINTER = "#pragma omp parallel for\nfor (int i = 0; i < n; ++i) hidden(i);"
ELSEWHERE = "int elsewhere(void) {\nint k = 0;\n#pragma omp single\nk = 1;\nreturn k;\n}"
OWN = "static int own;\n#pragma omp threadprivate(own)"
COPIED = (
    "own = 7;\n#pragma omp parallel for copyin(own)\n"
    "for (int i = 0; i < n; ++i) { if (own != 7) bad = 1; DO(i); }"
)
FLUSH = LOOP.format("\n#pragma omp flush\n")
REFUSED = {
    "unknown_code": static_cases.one_case(THROUGH_POINTER, f"{POINTER}\n{ELSEWHERE}"),
    "thread_data": static_cases.one_case(COPIED, OWN),
    "mpi": static_cases.one_case(LOOP.format("MPI_Wtime();")),
    "waiting": static_cases.one_case(FLUSH),
}


@pytest.mark.under("mpich4")
@pytest.mark.parametrize("reason", REFUSED)
def test_a_region_that_is_not_known_to_be_safe_has_a_real_team(
    mpi: MpiBuild, helped: Arm, reason: str
) -> None:
    done = divided(mpi, helped, reason, REFUSED[reason])
    assert ends(done) == {"divided": ("ok", "alone")}, done.told()
    assert done.summary["not_shared"][0]["reason"] == reason, done.told()  # type: ignore[index]


@pytest.mark.under("mpich4")
def test_calls_through_pointers_where_no_call_needs_a_team(mpi: MpiBuild, helped: Arm) -> None:
    text = static_cases.one_case(THROUGH_POINTER, POINTER)
    assert ends(divided(mpi, helped, "pointer", text)) == {"divided": ("ok", "joined")}


@pytest.mark.under("mpich4")
def test_the_user_overrules_thread_local_data_by_name(mpi: MpiBuild, helped: Arm) -> None:
    text = static_cases.one_case(LOOP.format("own = i;"), "static __thread int own;")
    done = divided(mpi, helped, "named", text, MH_OPENMP_ONLY="divided")
    assert ends(done) == {"divided": ("ok", "joined")}, done.told()


# Regions in which thread 0 waits for the last thread. When virtual threads run one after the other,
# the last thread has not begun, so the wait would never end.
WAITS = (
    "volatile int go = 0;\n#pragma omp parallel shared(go)\n{\n"
    "if (omp_get_thread_num() == omp_get_num_threads() - 1) go = 1;\n"
    "while (!go) continue;\n#pragma omp for nowait\nfor (int i = 0; i < n; ++i) DO(i);\n}"
)


@pytest.mark.under("mpich4")
def test_threads_that_wait_for_one_another_come_to_an_end(mpi: MpiBuild, helped: Arm) -> None:
    done = divided(mpi, helped, "waits", static_cases.one_case(WAITS))
    assert ends(done) == {"divided": ("ok", "alone")}, done.told()
    assert done.summary["not_shared"][0]["reason"] == "waiting", done.told()  # type: ignore[index]


@pytest.mark.under("mpich4")
def test_a_team_that_fits_on_the_own_cores_is_the_run_times(mpi: MpiBuild, helped: Arm) -> None:
    text = static_cases.one_case(LOOP.format(""))
    done = divided(mpi, helped, "fits", text, MH_CORES="4", OMP_NUM_THREADS="2")
    assert ends(done) == {"divided": ("ok", "alone")}, done.told()
