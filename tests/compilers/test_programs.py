# SPDX-License-Identifier: BSD-3-Clause
"""Programs with every directive have the same output alone and with loops shared by two threads.

The plain compiler ignores the directives and gives the expected numbers.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .conftest import FAMILIES, Bench, Family

PROGRAMS = Path(__file__).parent / "programs"
WARNINGS = ["-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Werror"]


def serial(bench: Bench, compiler: str, source: Path) -> str:
    subprocess.run([compiler, "-w", source, "-o", "serial"], cwd=bench.folder, check=True)
    return bench.program("./serial").stdout


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize(("kind", "name"), [("mhcc", "everything.c"), ("mhc++", "everything.cpp")])
def test_c_and_cxx(bench: Bench, family: Family, kind: str, name: str, level: str) -> None:
    bench.use(family)
    source = PROGRAMS / name
    expected = serial(bench, family.commands[kind], source)
    bench(kind, level, *WARNINGS, source, "-o", "program")
    assert bench.program("./program").stdout == expected
    for _ in range(3):
        shared = bench.program("./program", shared=True, MARKS="1")
        assert shared.stdout == expected
    assert shared.stderr.count("mark ") >= 6


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("name", ["everything.F90", "fixed.f"])
@pytest.mark.usefixtures("fortran")
def test_fortran(bench: Bench, name: str, level: str) -> None:
    source = PROGRAMS / name
    expected = serial(bench, "gfortran", source)
    bench("mhfort", level, "-Wall", "-Wno-unused-variable", "-J", bench.folder, source)
    assert bench.program().stdout == expected
    shared = bench.program(shared=True, MARKS="1")
    assert shared.stdout == expected and shared.stderr.count("mark ") >= 4
    assert re.search(r"^mark 2 \d 3 \d+$", shared.stderr, re.MULTILINE)


THREADS = """\
#include <stdio.h>
extern int omp_get_num_threads(void);
int main(void) {
  int threads = 0;
#pragma ws for schedule(static, 3) steal_schedule(guided)
  for (int i = 0; i < 100; ++i)
    if (i == 50) threads = omp_get_num_threads();
  printf("%d\\n", threads);
  return 0;
}
"""


LINKED = ["", "-fno-pie -no-pie", "-fPIC", "-O2 -flto", "-std=gnu89 -O1", "-pg", "-g3 -O1"]


@pytest.mark.parametrize(
    ("family", "options"),
    [
        pytest.param(family, options, id=f"{family.name}-{options}")
        for family in FAMILIES
        for options in LINKED
        if not (family.name == "clang" and "flto" in options)  # Clang's -flto needs a linker plugin
    ],
    indirect=["family"],
)
def test_the_library_is_found_however_the_program_is_linked(
    bench: Bench, family: Family, options: str
) -> None:
    bench.use(family)
    text = THREADS.replace("int i = 0", "i = 0").replace("threads = 0;", "threads = 0, i;")
    source = bench.write("threads.c", text)
    bench("mhcc", *options.split(), source)
    assert bench.program().stdout == "1\n"
    shared = bench.program(shared=True, MARKS="1")
    assert (shared.stdout, shared.stderr) == ("2\n", "mark 1 3 3 0\n")


def test_macros_are_those_that_hold_at_the_directive(bench: Bench, family: Family) -> None:
    bench.use(family)
    text = """\
#define CHUNK 5
#define TWICE(x) ((x) * FACTOR)
#define FACTOR 2
#define CLAUSES(kind) schedule(kind, TWICE(CHUNK)) steal_schedule(kind, MORE)
void f(void) {
#pragma ws for CLAUSES(guided)
  for (int i = 0; i < 3; ++i) {}
#undef CHUNK
#define CHUNK 7
#pragma ws for CLAUSES(dynamic)
  for (int i = 0; i < 3; ++i) {}
}
#undef FACTOR
#undef CHUNK
int main(void) { f(); }
"""
    bench("mhcc", "-DMORE=9", bench.write("macros.c", text))
    marks = bench.program(shared=True, MARKS="1").stderr
    assert marks == "mark 3 10 3 9\nmark 2 14 2 9\n"


OWN_OPENMP = """\
#include <stdio.h>
int main(void) {
  int threads = 0;
#ifdef _OPENMP
  printf("OpenMP ");
#endif
#pragma omp parallel num_threads(2) reduction(+ : threads)
  threads += 1;
  int sum = 0;
#pragma ws for reduction(+ : sum)
  for (int i = 0; i < 10; ++i) sum += i;
  printf("%d %d\\n", threads, sum);
}
"""


def test_openmp_of_the_user_is_active_only_with_fopenmp(bench: Bench, family: Family) -> None:
    bench.use(family)
    bench.write("own.c", OWN_OPENMP)
    bench("mhcc", "own.c")
    assert bench.program().stdout == "1 45\n"
    bench("mhcc", "-fopenmp", "own.c")
    assert bench.program().stdout == "OpenMP 2 45\n"


@pytest.mark.usefixtures("fortran")
def test_openmp_of_fortran_is_active_only_if_asked_for(bench: Bench) -> None:
    text = """\
program own
  integer :: threads = 0, i, total = 0
!$ print *, 'OpenMP'
!$omp parallel num_threads(2) reduction(+:threads)
  threads = threads + 1
!$omp end parallel
!$ws do reduction(+:total)
  do i = 1, 10
    total = total + i
  end do
  print *, threads, total
end program
"""
    bench.write("own.f90", text)
    bench("mhfort", "own.f90")
    assert bench.program().stdout.split() == ["1", "55"]
    bench("mhfort", "-fopenmp", "own.f90")
    assert bench.program().stdout.split() == ["OpenMP", "2", "55"]


def test_conditional_lastprivate(bench: Bench) -> None:
    text = """\
#include <stdio.h>
int main(void) {
  int x = -1;
#pragma ws for lastprivate(conditional : x)
  for (int i = 0; i < 1000; ++i)
    if (i % 7 == 3) x = i;
  printf("%d\\n", x);
}
"""
    bench("mhcc", bench.write("conditional.c", text))
    assert bench.program().stdout == bench.program(shared=True).stdout == "997\n"
