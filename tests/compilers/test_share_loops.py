# SPDX-License-Identifier: BSD-3-Clause
"""Tests `--share-loops`: parallel loops of OpenMP that become shared loops, and loops that do not.

Further tests cover the link flags and the compilers that shared loops need.
"""

from __future__ import annotations

import pytest
from manyhands_compilers import clike, fortran

from .conftest import Bench, Family

TEAM = "num_threads(__mh_ws_mark ? __mh_ws_mark(0, 0L, 0, 0L) : __mh_ws_team())"
HEAD = "for (int i = 0; i < n; ++i)"


def c(text: str, language: str = "c") -> str:
    request = clike.Request(language, openmp=True, share_loops=True)
    return clike.rewrite(f'# 1 "a.c"\n{text}\n', request)


def fort(text: str, fixed: bool = False) -> str:
    request = fortran.Request(fixed, openmp=True, share_loops=True)
    return fortran.rewrite(f'# 1 "a.f90"\n{text}\n', request)


@pytest.mark.parametrize(
    "clauses",
    [
        *("", "private(a)", "reduction(+ : s) shared(n) default(none)", "collapse(2)"),
        *("firstprivate(a), lastprivate(b)",),
    ],
)
@pytest.mark.parametrize("language", ["c", "c++"])
def test_a_parallel_loop_becomes_a_shared_loop(clauses: str, language: str) -> None:
    rewritten = c(f"#pragma omp parallel for {clauses}\n{HEAD} f(i);", language)
    assert TEAM in rewritten
    assert clauses.replace(",", "") in rewritten


STAYS = [
    *("schedule(static)", "num_threads(2)", "ordered", "if(n > 1)", "simd", "nowait", "copyin(a)"),
    *("reduction(inscan, + : s)", "proc_bind(close)", "private(a"),
]


@pytest.mark.parametrize("clauses", STAYS)
def test_a_loop_with_another_clause_stays(clauses: str) -> None:
    text = f"#pragma omp parallel for {clauses}\n{HEAD} f(i);"
    assert text in c(text)
    text = f"!$omp parallel do {clauses}\ndo i = 1, n\nend do"
    assert text in fort(text)


@pytest.mark.parametrize("directive", ["cancel for", "task", "ordered", "ws for"])
def test_a_loop_that_holds_what_needs_its_team_stays(directive: str) -> None:
    inner = directive if directive.startswith("ws") else f"omp {directive}"
    outer = f"#pragma omp parallel for\n{HEAD} {{\n"
    assert outer in c(f"{outer}#pragma {inner}\n{HEAD} f(i);\n}}")
    assert outer in c(f"{outer}v[omp_get_thread_num()] += i;\n}}")


@pytest.mark.parametrize("outer", ["omp parallel for", "ws for"])
def test_a_loop_within_a_shared_loop_stays(outer: str) -> None:
    inner = f"#pragma omp parallel for\n{HEAD} f(i);"
    rewritten = c(f"#pragma {outer}\n{HEAD} {{\n{inner}\n}}\n{inner}")
    assert rewritten.count(inner) == 1
    assert rewritten.count("__mh_ws_mark ?") == 2


def test_fortran_loops_in_both_forms() -> None:
    free = fort("x = 1\n!$omp parallel do & ! why\n!$omp private(j)\ndo i = 1, n\nend do")
    assert "!$omp parallel do num_threads(mh_ws_mark_team(0_4, 0_8, 0_4, 0_8))" in free
    assert "private(j)" in free and "function mh_ws_mark_team" in free
    for mark in ("c$omp", "!$OMP", "*$omp"):
        loop = "      do i = 1, n\n      end do"
        text = f"      x = 1\n{mark} paralleldo\n{mark}& private(j)\n{loop}"
        rewritten = fort(text, fixed=True)
        assert "mh_ws_mark_team(" in rewritten and "private(j)" in rewritten
        assert max(len(line) for line in rewritten.splitlines()) <= 72


def test_fortran_loops_that_stay() -> None:
    loop = "!$omp parallel do\ndo i = 1, n\n{}\nend do\n!$omp end parallel do\n"
    for inner in ("!$omp cancel do", "k = omp_get_thread_num()", "!$ws do\ndo j = 1, n\nend do"):
        assert loop.format(inner)[:30] in fort("x = 1\n" + loop.format(inner))
    labelled = "      x = 1\n!$omp parallel do\n      do 10 i = 1, n\n 10   continue\n"
    assert fort(labelled, fixed=True).count("!$omp parallel do\n") == 1
    nested = fort("x = 1\n" + loop.format(loop.format("x = 1")) + loop.format(""))
    assert nested.count("mh_ws_mark_team(0") == 2 and nested.count("!$omp parallel do\n") == 1


# --- programs that are compiled with --share-loops ----------------------------------------------

PROGRAM = """\
#include <omp.h>
#include <stdio.h>
#define TWICE _Pragma("omp parallel for reduction(+ : sum)")
int main(void) {
  int sum = 0;
#pragma omp parallel for \\
    reduction(+ : sum)
  for (int i = 0; i < 10; ++i) sum += i;
  TWICE for (int i = 0; i < 10; ++i) sum += i;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (int i = 0; i < 10; ++i) sum += i;
  printf("%d\\n", sum);
}
"""


@pytest.mark.parametrize("kind", ["mhcc", "mhc++"])
def test_loops_of_c_and_cxx_are_shared(bench: Bench, family: Family, kind: str) -> None:
    bench.use(family)
    source = bench.write("a.c" if kind == "mhcc" else "a.cpp", PROGRAM)
    bench(kind, "--share-loops", "-fopenmp", source)
    assert bench.program().stdout == "135\n"
    shared = bench.program(shared=True, MARKS="1")
    assert (shared.stdout, shared.stderr) == ("135\n", "mark 0 0 0 0\n" * 2)


FORTRAN = """\
program p
  implicit none
  integer :: i, total = 0
!$omp parallel do reduction(+:total)
  do i = 1, 10
    total = total + i
  end do
!$omp end parallel do
  print *, total
end program
"""


@pytest.mark.usefixtures("fortran")
def test_loops_of_fortran_are_shared(bench: Bench) -> None:
    bench("mhfort", "--share-loops", "-fopenmp", bench.write("a.f90", FORTRAN))
    assert bench.program().stdout.split() == ["55"]
    shared = bench.program(shared=True, MARKS="1")
    assert (shared.stdout.split(), shared.stderr) == (["55"], "mark 0 0 0 0\n")


TEAM_SIZE = """\
#include <stdio.h>
int size(void);
int main(void) {
  int most = 0;
#pragma omp parallel for reduction(max : most)
  for (int i = 0; i < 3; ++i) most = size() > most ? size() : most;
  printf("%d\\n", most);
}
"""


def test_a_loop_without_the_library_keeps_its_team(bench: Bench, family: Family) -> None:
    bench.use(family)
    bench.write("a.c", TEAM_SIZE)
    bench.write("size.c", "#include <omp.h>\nint size(void) { return omp_get_num_threads(); }\n")
    bench("mhcc", "--share-loops", "-fopenmp", "a.c", "size.c")
    assert bench.program(OMP_NUM_THREADS="3").stdout == "3\n"


def test_without_openmp_the_option_says_that_it_has_no_effect(bench: Bench) -> None:
    bench.write("a.c", PROGRAM.replace("#include <omp.h>\n", ""))
    errors = bench("mhcc", "--share-loops", "-c", "a.c").stderr
    assert errors == "a.c: warning: --share-loops has no effect without -fopenmp; add -fopenmp\n"


# --- static libraries (archives) on a link command; Fortran compilers that are refused ----------

OTHER = """\
int other(void);
int other(void) {
  int sum = 0;
#pragma ws for reduction(+ : sum)
  for (int i = 0; i < 10; ++i) sum += i;
  return sum - 45;
}
"""


@pytest.mark.parametrize("words", ["libb.a", "-Wl,libb.a", "-Xlinker libb.a", "-L. -Wl,-lb"])
@pytest.mark.parametrize("kind", ["rcs", "rcsT"])
def test_archives_of_every_kind_are_looked_into(bench: Bench, kind: str, words: str) -> None:
    bench.write("a_name_too_long_for_a_header.c", OTHER)
    bench.write("main.c", "int other(void);\nint main(void) { return other(); }\n")
    bench("mhcc", "-c", "a_name_too_long_for_a_header.c")
    bench("ar", kind, "libb.a", "a_name_too_long_for_a_header.o")
    bench("mhcc", "main.c", *words.split())
    assert bench.program(shared=True, MARKS="1").stderr == "mark 0 0 0 0\n"


@pytest.mark.parametrize("version", ["flang-new version 17.0.6", "ifx (IFX) 2024.0.0 20231017"])
def test_other_fortran_compilers_are_refused_by_name(bench: Bench, version: str) -> None:
    compiler = bench.write("other", f"#!/bin/sh\necho '{version}'\n")
    compiler.chmod(0o755)
    bench.write("a.f90", "!$ws do\ndo i = 1, 2\nend do\nend\n")
    errors = bench("mhfort", "-c", "a.f90", code=1, MH_FC=str(compiler)).stderr
    assert f"is '{version}', but shared loops of Fortran need gfortran" in errors
