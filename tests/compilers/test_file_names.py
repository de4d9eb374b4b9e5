# SPDX-License-Identifier: BSD-3-Clause
"""A wrapper compiler makes the same files as the plain compiler, with the same names.

Each command line runs twice in its own directory, with the plain compiler and then with the
wrapper. The sets of files must be equal, and so must the text of the dependency files, because a
build depends on it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .conftest import FAMILIES, Bench, Family

HEADER = "#define COUNT 10\n"
MAIN = """\
#include "in.h"
int main(void) {
  int sum = 0;
#pragma ws for reduction(+ : sum)
  for (int i = 0; i < COUNT; ++i) sum += i;
  return sum - 45;
}
"""
OTHER = """\
#include "sub/in.h"
int other(int* to) {
#pragma ws for
  for (int i = 0; i < COUNT; ++i) to[i] = i;
  return COUNT;
}
"""
UNMARKED = '#include "sub/in.h"\nint third(void) { return COUNT; }\n'
FORTRAN_MAIN = """\
program p
  integer :: i, total = 0
#include "in.h"
!$ws do reduction(+:total)
  do i = 1, COUNT
    total = total + i
  end do
  if (total /= 55) stop 1
end program
"""
FORTRAN_OTHER = """\
subroutine s(to)
  integer :: to(10), i
!$ws do
  do i = 1, 10
    to(i) = i
  end do
end subroutine
"""
FORTRAN_UNMARKED = "subroutine t(x)\n  real :: x\n  x = 1\nend subroutine\n"
FORTRAN_MODULE = f"module m\ncontains\n{FORTRAN_OTHER}end module\n"
FORTRAN_USER = """\
subroutine u(to)
  use m
  include 'sizes.inc'
  integer :: to(n), i
!$ws do
  do i = 1, n
    to(i) = i
  end do
  call s(to)
end subroutine
"""

ONE = [
    "-M sub/a.c",
    "-MM sub/a.c -MF deps",
    "-MM -MG -MP -MT x sub/a.c -o deps",
    "-E sub/a.c -MD -o a.i",
    "-MD -c sub/a.c",
    "-MMD -c sub/a.c -o out/b.o",
    "-MMD sub/a.c",
    "-MMD sub/a.c -o prog",
    "-MMD sub/a.c -o out/prog",
    "-MMD sub/a.c -o out/a",
    "-MMD sub/a.c -oout/prog.exe",
    "-MMD -MF prog.d -o prog sub/a.c",
    "-MMD -MFout/prog.d -MP -o prog sub/a.c",
    "-MD -MT one -MT two sub/a.c -o prog",
    "-MMD -MQ $x -MT y -MF deps -o prog sub/a.c",
    "-MMD -MF deps -S sub/a.c",
    "-MMD -S sub/a.c -o out/b.s",
    "-MMD -fsyntax-only sub/a.c",
    "-Wp,-MMD,deps sub/a.c -o prog",
    "-Wp,-MD,deps -c sub/a.c -o out/b.o",
    "-Wp,-MMD,deps,-MT,here,-MP sub/a.c",
    "-save-temps sub/a.c",
    "-save-temps -c sub/a.c",
    "-save-temps -c sub/a.c -o out/b.o",
    "-save-temps sub/a.c -o out/prog",
    "-save-temps=cwd sub/a.c -o out/prog",
    "-save-temps=obj sub/a.c -o out/prog",
    "-save-temps=obj -c sub/a.c -o out/b.o",
    "-save-temps=obj -S sub/a.c -o out/b.s",
    "-save-temps -MMD -o prog sub/a.c",
    "-g -gsplit-dwarf sub/a.c",
    "-g -gsplit-dwarf -c sub/a.c",
    "-g -gsplit-dwarf -c sub/a.c -o out/b.o",
    "-g -gsplit-dwarf sub/a.c -o out/prog",
    "-g -gsplit-dwarf -save-temps=obj sub/a.c -o out/prog",
    "--coverage -c sub/a.c",
    "--coverage -c sub/a.c -o out/b.o",
    "--coverage sub/a.c",
    "--coverage sub/a.c -o out/prog",
    "-fstack-usage -c sub/a.c",
    "-fstack-usage -c sub/a.c -o out/b.o",
    "-fstack-usage sub/a.c -o out/prog",
    "-fstack-usage -S sub/a.c -o out/b.s",
    "-MMD --coverage -fstack-usage -g -gsplit-dwarf -save-temps=obj -o out/prog sub/a.c",
]
SEVERAL = [
    "-MMD -c sub/a.c b.c c.c",
    "-MMD sub/a.c b.c c.c -o prog",
    "-MMD sub/a.c b.c c.c",
    "-MMD -MF deps sub/a.c b.c -o out/prog",
    "-MD -MT x c.c sub/a.c -o out/prog",
    "-save-temps sub/a.c b.c c.c -o prog",
    "-save-temps sub/a.c c.c",
    "-save-temps=obj sub/a.c b.c c.c -o out/prog",
    "-save-temps -c sub/a.c b.c c.c",
    "-g -gsplit-dwarf sub/a.c b.c c.c -o out/prog",
    "-g -gsplit-dwarf sub/a.c b.c c.c",
    "-g -gsplit-dwarf -c sub/a.c c.c",
    "--coverage sub/a.c b.c c.c -o out/prog",
    "--coverage sub/a.c c.c",
    "--coverage -c sub/a.c b.c c.c",
    "-fstack-usage sub/a.c b.c c.c -o out/prog",
    "-fstack-usage -MMD -S sub/a.c b.c c.c",
]
GCC_ONLY = [
    "-MMD -dumpdir out/x- -c sub/a.c",
    "-MMD -dumpbase y.z -c sub/a.c -o b.o",
    "-MMD -dumpdir out/ -dumpbase y.z -dumpbase-ext .z sub/a.c -o prog -fstack-usage",
    "-save-temps -dumpbase y.z -dumpbase-ext .z -c sub/a.c",
    "-save-temps -dumpdir out/x- sub/a.c b.c -o prog",
    "-fdump-tree-original -c sub/a.c -o out/b.o",
    "-fdump-tree-original sub/a.c b.c c.c -o out/prog",
    "-fcallgraph-info -c sub/a.c -o out/b.o",
    "-fopt-info-vec=vec -O2 -c sub/a.c",
    "-flto -save-temps -c sub/a.c -o out/b.o",
]
CLANG_ONLY = [
    "-ftime-trace -c sub/a.c -o out/b.o",
    "-fsave-optimization-record -c sub/a.c -o out/b.o",
    "-MJ out/a.json -c sub/a.c",
]
FORTRAN_LINES = [
    "-cpp -MMD -MF deps -c sub/p.F90 -o out/p.o",
    "-cpp -MMD -MF deps sub/p.F90 -o out/prog",
    "-cpp -MMD sub/p.F90 -o out/prog",
    "-cpp -MD -c sub/p.F90",
    "-cpp -MD -MF deps s.f90 sub/p.F90 t.f90 -o out/prog",
    "-cpp -MMD sub/p.F90 s.f90 t.f90",
    "-cpp -MMD -c m.f90 sub/u.F90",
    "-save-temps -c sub/p.F90",
    "-save-temps sub/p.F90 s.f90 -o out/prog",
    "-save-temps=obj sub/p.F90 s.f90 -o out/prog",
    "-g -gsplit-dwarf sub/p.F90 s.f90 -o out/prog",
    "-g -gsplit-dwarf -c s.f90 -o out/t.o",
    "--coverage sub/p.F90 s.f90 -o out/prog",
    "--coverage -c sub/p.F90 -o out/t.o",
    "-fstack-usage sub/p.F90 s.f90",
    "-fstack-usage s.f90 -c",
]


def with_sources(bench: Bench, folder: Path) -> None:
    sources = {
        "sub/in.h": HEADER,
        "sub/a.c": MAIN,
        "b.c": OTHER,
        "c.c": UNMARKED,
        "sub/p.F90": FORTRAN_MAIN,
        "s.f90": FORTRAN_OTHER,
        "t.f90": FORTRAN_UNMARKED,
        "m.f90": FORTRAN_MODULE,
        "sub/u.F90": FORTRAN_USER,
        "sub/sizes.inc": "integer, parameter :: n = 10\n",
    }
    for name, text in sources.items():
        bench.write(str(folder / name), text)
    (folder / "out").mkdir()


def is_depend(path: Path) -> bool:
    return path.suffix == ".d" or path.name == "deps"


def made(bench: Bench, compiler: str, words: str) -> tuple[set[str], dict[str, str], str]:
    """Returns the files that a command makes, the text of its dependency files, and its
    standard output."""
    outer = bench.folder
    bench.folder = (
        outer / "work"
    )  # the same path for both compilers, which may write the path into a file
    with_sources(bench, bench.folder)
    out = bench(compiler, *words.split()).stdout
    files = [path for path in bench.folder.rglob("*") if path.is_file()]
    names = {str(path.relative_to(bench.folder)) for path in files}
    texts = {str(p.relative_to(bench.folder)): p.read_text() for p in files if is_depend(p)}
    shutil.rmtree(bench.folder)
    bench.folder = outer
    return names, texts, out


def compare(bench: Bench, kind: str, words: str) -> None:
    plain = made(bench, bench.compilers[kind], words)
    ours = made(bench, kind, words)
    assert sorted(ours[0]) == sorted(plain[0])
    assert ours[1:] == plain[1:]


@pytest.mark.parametrize("words", ONE + SEVERAL)
def test_files_of_c(bench: Bench, family: Family, words: str) -> None:
    bench.use(family)
    compare(bench, "mhcc", words)


@pytest.mark.parametrize(
    ("family", "words"),
    [
        pytest.param(family, words, id=f"{family.name}-{words}")
        for family, lines in zip(FAMILIES, (GCC_ONLY, CLANG_ONLY), strict=True)
        for words in lines
    ],
    indirect=["family"],
)
def test_files_of_options_that_one_compiler_has(bench: Bench, family: Family, words: str) -> None:
    bench.use(family)
    compare(bench, "mhcc", words)


@pytest.mark.usefixtures("fortran")
@pytest.mark.parametrize("words", FORTRAN_LINES)
def test_files_of_fortran(bench: Bench, words: str) -> None:
    compare(bench, "mhfort", words)


@pytest.mark.parametrize("words", ["-MMD sub/a.c -o prog", "-save-temps sub/a.c b.c -o out/prog"])
def test_files_of_cxx(bench: Bench, family: Family, words: str) -> None:
    bench.use(family)
    compare(bench, "mhc++", words)
