# SPDX-License-Identifier: BSD-3-Clause
"""Tests the wrapper compilers as compilers: options, files, messages, builds, and no files left."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from manyhands_compilers.options import CommandLine, response_file

from .conftest import Bench, Family

PLAIN = "int main(void) { return 0; }\n"
LOOP = """\
#include <stdio.h>
#ifndef NAME
#define NAME main
#endif
int NAME(void) {
  int sum = 0;
#pragma ws for reduction(+ : sum)
  for (int i = 0; i < 10; ++i) sum += i;
  printf("%s %d %d\\n", __FILE__, __LINE__, sum);
  return 0;
}
"""


def symbols(path: Path) -> str:
    return subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout


# --- splitting the command line ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "action", "sources"),
    [
        ("a.c", "link", ["a.c"]),
        ("-c a.c -o b.o", "object", ["a.c"]),
        ("-S -x c++ a -x none b.f90 c.o", "assembly", ["a", "b.f90"]),
        ("-E a.c", "leave", ["a.c"]),
        ("-MM a.c", "leave", ["a.c"]),
        ("-fsyntax-only a.cc", "syntax", ["a.cc"]),
        ("-print-search-dirs", "leave", []),
        ("-o out.c -I dir.c -D x.c -MF d.c -Xlinker e.c -include f.c g.o h.s", "link", []),
        ("-x c -", "link", ["-"]),
        ("-x assembler a.c", "link", []),
    ],
)
def test_command_lines(words: str, action: str, sources: list[str]) -> None:
    line = CommandLine(words.split())
    assert (line.action, [source.path for source in line.sources]) == (action, sources)


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("preprocess", "-Dx=1 -D x -Idir -include a.h -isystemdir -Wp,-D,x -dM -P -fpreprocessed"),
        ("depend", "-MD -MMD -MFfile -MF file -MT target -MQtarget -MP"),
        ("link", "-lm -L. -Wl,-s -Xlinker -s -fuse-ld=gold -rdynamic -u name"),
        ("output", "-o a -oa"),
        ("language", "-x c -xc++"),
        ("other", "-O2 -g -emit-llvm -da -std=c99 -static -shared -J dir -undef -specs=x -fopenmp"),
    ],
)
def test_roles(role: str, words: str) -> None:
    assert {item.role for item in CommandLine(words.split()).items} == {role}


def test_response_files_are_read_as_compilers_do(tmp_path: Path) -> None:
    file = tmp_path / "words"
    file.write_text('-DA=\\"x\\" \'b c\'.o "it\'s" d\\ e\n\n@other')
    assert response_file(f"@{file}") == ['-DA="x"', "b c.o", "it's", "d e", "@other"]


# --- error messages, and the line numbers in messages and debug information -------------------


def test_refusal_names_the_place(bench: Bench, family: Family) -> None:
    bench.use(family)
    bench.write("in.h", "\n#pragma ws for nowait\n")
    bench.write("a.c", 'int x;\n\n#include "in.h"\nint y;\n#pragma ws foor\n')
    for words in (["-c", "a.c"], ["a.c"], ["-S", "a.c", "-o", "-"]):
        errors = bench("mhcc", *words, code=1).stderr.splitlines()
        assert re.match(r"(\./)?in\.h:2: error: 'nowait' is refused: ", errors[0])
        assert errors[1] == "a.c:5: error: unknown directive 'foor': did you mean 'for'?"
    assert not (bench.folder / "a.o").exists()


def test_diagnostics_name_the_lines_of_the_user(bench: Bench, family: Family) -> None:
    bench.use(family)
    text = """\
#define F _Pragma("ws for")
void f(int n) {
  int unused;
#pragma ws for private( \\
  n)
  while (n) --n;
  F for (int i = 0; i < n; ++i) undeclared += i;
#pragma ws sections
  {
    undeclared_too++;
#pragma ws section
    wrong_as_well++;
  }
}
"""
    bench.write("sub/a.c", text)
    errors = bench("mhcc", "-Wall", "-c", "sub/a.c", code=1).stderr
    lines = re.findall(r"^(\S+?):(\d+):\d+: (?:error|warning)", errors, re.MULTILINE)
    assert {name for name, _ in lines} == {"sub/a.c"}
    assert {"6", "7", "10", "12"} <= {number for _, number in lines}, errors


def test_warnings_of_the_preprocessor_come_once(bench: Bench, family: Family) -> None:
    bench.use(family)
    for text in (LOOP, PLAIN):
        bench.write("a.c", f'#include "b.h"\n{text}')
        bench.write("b.h", "#warning careful\n")
        errors = bench("mhcc", "-c", "a.c").stderr
        assert len(re.findall(r"^(?:\./)?b\.h:1:2: warning: .*careful", errors, re.MULTILINE)) == 1


@pytest.mark.usefixtures("fortran")
@pytest.mark.parametrize("name", ["a.f90", "a.F90", "a.f"])
def test_diagnostics_name_the_lines_of_fortran(bench: Bench, name: str) -> None:
    text = """\
      subroutine s(n)
      implicit none
      integer i, n
!$ws do private(i)
      do i = 1, n
        call f(i)
      end do
!$ws sections
      call f(1)
!$ws section
      undeclared = 1
!$ws end sections
      also = 2
      end subroutine
"""
    errors = bench("mhfort", "-c", bench.write(name, text), code=1).stderr
    places = re.findall(r"^\S*?(a\.[fF]\w*):(\d+):", errors, re.MULTILINE)
    assert sorted(set(places)) == [(name, "11"), (name, "13")]


def test_debug_lines_are_those_of_the_user(bench: Bench, family: Family) -> None:
    bench.use(family)
    bench.write("sub/a.c", LOOP)
    bench("mhcc", "-g", "-c", "sub/a.c", "-o", "a.o")
    info = bench("objdump", "--dwarf=info", "a.o").stdout
    assert re.search(r"DW_AT_name +: .*\bsub/a\.c$", info, re.MULTILINE), info
    assert "manyhands" not in bench("objdump", "--dwarf=decodedline", "a.o").stdout
    lines = bench("objdump", "-dl", "a.o").stdout
    assert {"6", "8", "9", "10"} <= set(re.findall(r"sub/a\.c:(\d+)", lines))
    assert bench("mhcc", "sub/a.c") and bench.program().stdout == "sub/a.c 9 45\n"


@pytest.mark.usefixtures("fortran")
def test_debug_lines_of_fortran(bench: Bench) -> None:
    bench.write("sub/a.f90", "program a\n!$ws do\ndo i = 1, 2\n  call f(i)\nend do\nend\n")
    bench("mhfort", "-g", "-c", "sub/a.f90", "-o", "a.o")
    lines = bench("objdump", "-dl", "a.o").stdout
    assert {"2", "4"} <= set(re.findall(r"sub/a\.f90:(\d+)", lines))
    assert re.search(
        r"DW_AT_name +: .*\bsub/a\.f90", bench("objdump", "--dwarf=info", "a.o").stdout
    )


# --- options and files ------------------------------------------------------------------------


def test_without_directives_the_compiler_is_called_as_it_stands(
    bench: Bench, family: Family
) -> None:
    bench.use(family)
    # The text of a `ws` directive in a string or a comment is not a directive.
    bench.write("a.c", f'/* #pragma ws for */ const char* s = "#pragma ws for";\n{PLAIN}')
    compiler = family.commands["mhcc"]
    for words in (["-c", "a.c"], ["-g", "a.c", "-lm"]):
        bench(compiler, *words, "-o", "plain")
        bench("mhcc", *words, "-o", "ours")
        assert (bench.folder / "ours").read_bytes() == (bench.folder / "plain").read_bytes()
    assert bench("mhcc", "--show", "-c", "a.c").stdout == f"{compiler} -c a.c\n"
    assert bench("mhcc", "-E", "a.c").stdout == bench(compiler, "-E", "a.c").stdout
    assert bench("mhcc", "-dumpversion").stdout == bench(compiler, "-dumpversion").stdout
    errors = bench(compiler, "-c", "b.c", code=1).stderr
    assert bench("mhcc", "-c", "b.c", code=1).stderr == errors


def test_show_runs_nothing(bench: Bench) -> None:
    bench.write("a.c", LOOP)
    shown = bench("mhcc", "--show", "-O2", "-Dx=1", "-c", "a.c", "-MD").stdout.splitlines()
    assert shown == [
        "gcc -O2 -Dx=1 -MD -MF a.d -MQ a.o -E -dD a.c",
        "gcc -O2 -fopenmp -c -o a.o -x cpp-output -",
    ]
    assert [path.name for path in bench.folder.iterdir() if path.is_file()] == ["a.c"]


def test_the_commands_import_little(bench: Bench) -> None:
    bench.write("a.c", LOOP)
    launcher = bench.commands / "mhcc"
    errors = bench(sys.executable, "-X", "importtime", launcher, "-c", "a.c").stderr
    names = {line.split("|")[-1].strip() for line in errors.splitlines()}
    assert "manyhands_compilers.drive" in names
    assert not names & {"manyhands", "typer", "rich", "pathlib", "typing_extensions"}


def test_own_options(bench: Bench) -> None:
    assert "usage: mhfort [--mpi" in bench("mhfort", "--help").stdout
    version = bench("mhc++", "--version").stdout
    assert version.startswith("g++ ") and re.search(
        r"^mhc\+\+ \(Manyhands .*\) drives g\+\+$", version, re.MULTILINE
    )
    assert "--mpi needs a value" in bench("mhcc", "--mpi", code=1).stderr
    assert "no-such-mpicc does not exist" in bench("mhcc", "--mpi=no-such-mpicc", code=1).stderr
    assert "MH_CC=none: cannot find none" in bench("mhcc", "-c", "a.c", code=1, MH_CC="none").stderr
    bench.compilers.clear()
    folders = f"{bench.commands}:/nowhere"
    launcher = bench.commands / "mhcc"
    assert "set MH_CC=gcc for a program without MPI" in bench(launcher, code=1, PATH=folders).stderr
    needs = bench(launcher, "--version", PATH=folders).stdout
    assert re.match(r"mhcc \(Manyhands .*\) needs a C compiler and an MPI .*mpicc is not", needs)


def test_multiple_sources(bench: Bench, family: Family) -> None:
    bench.use(family)
    bench.write("a.c", LOOP)
    bench.write("b.c", f"#define NAME other\n{LOOP}")
    bench.write("c.c", "extern int other(void);\nint third(void) { return other(); }\n")
    bench("mhcc", "-c", "a.c", "b.c", "c.c", "-O1")
    assert all("__mh_ws_mark" in symbols(bench.folder / f"{name}.o") for name in "ab")
    bench("mhcc", "a.c", "b.c", "c.c", "-o", "one", "-lm")
    bench("mhcc", "a.c", "b.o", "c.c", "-o", "two")
    bench("mhcc", "a.o", "b.o", "c.o", "-o", "three")
    for name in ("one", "two", "three"):
        assert bench.program(f"./{name}").stdout == "a.c 9 45\n"


def test_archives_and_shared_libraries(bench: Bench) -> None:
    bench.write("b.c", LOOP)
    bench.write("main.c", "int other(void);\nint main(void) { return other(); }\n")
    bench("mhcc", "-c", "b.c", "-DNAME=other", "-fPIC")
    bench("ar", "rcs", "libb.a", "b.o")
    bench("mhcc", "main.c", "-L.", "-lb", "-o", "static")
    bench("mhcc", "-shared", "b.o", "-o", "libc2.so")
    bench("mhcc", "main.c", "-L.", "-lc2", "-o", "dynamic", f"-Wl,-rpath,{bench.folder}")
    for name in ("static", "dynamic"):
        assert bench.program(f"./{name}", shared=True, MARKS="1").stderr == "mark 0 0 0 0\n"


def test_standard_input_response_files_and_languages(bench: Bench) -> None:
    bench("mhcc", "-x", "c", "-", "-o", "a", text=LOOP)
    assert bench.program("./a").stdout == "<stdin> 9 45\n"
    bench("mhcc", "-x", "c", "-", text=PLAIN)
    bench.write("source", LOOP)
    bench.write("words", '-O1 -x c++ "source" -o b\n')
    bench("mhc++", "@words")
    assert bench.program("./b").stdout == "source 9 45\n"
    assert "__mh_ws_mark" in bench("mhcc", "-S", "-x", "c", "source", "-o", "-").stdout
    bench.write("a.i", bench("mhcc", "-E", "-x", "c", "source").stdout)
    bench("mhcc", "a.i", "-o", "c")
    assert bench.program("./c").stdout == "source 9 45\n"
    bench.write("start.s", ".globl answer\nanswer: mov $42, %eax\nret\n")
    bench("mhcc", "-c", "start.s")
    bench.write("a.c", LOOP)
    bench("mhcc", "a.c", "start.s", "-o", "d")
    assert bench.program("./d").stdout == "a.c 9 45\n"


def test_save_temps_and_coverage(bench: Bench, family: Family) -> None:
    bench.use(family)
    bench.write("sub/a.c", LOOP)
    bench("mhcc", "-save-temps", "-c", "sub/a.c")
    assert "omp parallel for" in (bench.folder / "a.i").read_text()
    assert (bench.folder / "a.s").exists()
    bench("mhcc", "--coverage", "-c", "sub/a.c", "-o", "b.o")
    assert (bench.folder / "b.gcno").exists()
    assert bench("mhcc", "-fsyntax-only", "sub/a.c").stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        "-MD -c sub/a.c",
        "-MMD -MP -c sub/a.c -o out/b.o",
        "-MD -MF deps -MT a_target -c sub/a.c",
        "-c sub/a.c -o out/b.o -MD -MQ $x -MFdeps",
        "-Wp,-MMD,deps -c sub/a.c -o a.o",
    ],
)
def test_dependencies_are_those_of_the_plain_compiler(
    bench: Bench, family: Family, words: str
) -> None:
    bench.use(family)
    written = []
    for compiler in (family.commands["mhcc"], "mhcc"):
        bench.write("sub/in.h", "#define IN 1\n")
        bench.write("sub/a.c", f'#include "in.h"\n{LOOP}')
        (bench.folder / "out").mkdir(exist_ok=True)
        bench(compiler, *words.split())
        found = [p for p in bench.folder.rglob("*") if p.suffix == ".d" or p.name == "deps"]
        written.append({str(p.relative_to(bench.folder)): p.read_text() for p in found})
        for path in found:
            path.unlink()
    assert written[0] == written[1] and len(written[0]) == 1


def test_a_source_that_cannot_be_preprocessed(bench: Bench) -> None:
    bench.write("a.c", LOOP)
    bench.write("b.c", '#include "absent.h"\n')
    assert "absent.h" in bench("mhcc", "-c", "b.c", code=1).stderr
    assert "absent.h" in bench("mhcc", "-c", "a.c", "b.c", code=1).stderr
    assert not (bench.folder / "a.o").exists(), "compiled without its directives"


@pytest.mark.usefixtures("fortran")
def test_names_of_files(bench: Bench) -> None:
    for name in ('a "b".c', "größe.c", "大小.c"):
        bench.write(name, LOOP)
        bench("mhcc", "-g", name)
        assert bench.program().stdout == f"{name} 9 45\n"
        wrong = bench.write(f"{name}.c", "#pragma ws foo\n").name
        assert bench("mhcc", wrong, code=1).stderr.startswith(f"{wrong}:1: error: ")
    for name in ("größe.f90", "大小.f90"):
        bench.write(name, "!$ws do\ndo i = 1, 2\nend do\nend\n")
        bench("mhfort", name)


def test_included_files_are_looked_at(bench: Bench) -> None:
    bench.write("loop.h", LOOP)
    bench.write("a.c", '#include "loop.h"\n')
    bench("mhcc", "a.c")
    assert bench.program(shared=True, MARKS="1").stderr == "mark 0 0 0 0\n"
    bench.write("b.c", "\n")
    bench("mhcc", "b.c", "-include", "loop.h")
    assert bench.program(shared=True, MARKS="1").stderr == "mark 0 0 0 0\n"


@pytest.mark.usefixtures("fortran")
def test_fortran_objects_can_be_linked_by_all(bench: Bench) -> None:
    bench.write("s.f90", "subroutine s\n!$ws do\ndo i = 1, 2\nend do\nend\n")
    bench.write("main.c", "void s_(void);\nint main(void) { s_(); }\n")
    bench("mhfort", "-c", "s.f90")
    bench("mhcc", "main.c", "s.o", "-lgfortran", "-o", "by_c")
    bench("mhc++", "-x", "c", "main.c", "-x", "none", "s.o", "-lgfortran", "-o", "by_cxx")
    bench("mhfort", "main.c", "s.o", "-o", "by_fortran")
    for name in ("by_c", "by_cxx", "by_fortran"):
        bench.program(f"./{name}")
        assert bench.program(f"./{name}", shared=True, MARKS="1").stderr == "mark 0 0 0 0\n"


@pytest.mark.usefixtures("fortran")
def test_fortran_preprocessed_by_the_build(bench: Bench) -> None:
    text = "program p\n#define N 3\n!$ws do\ndo i = 1, N\nx = y\nend do\nend\n"
    bench.write("sub/p.F90", text)
    bench("mhfort", "-cpp", "-E", "sub/p.F90", "-o", "p-pp.f90")
    bench("mhfort", "-fpreprocessed", "-c", "p-pp.f90", "-o", "p.o")
    assert "mh_ws_mark" in symbols(bench.folder / "p.o")
    bench.write("q.f90", text.replace("N", "3").replace("#define 3 3", "implicit none"))
    errors = bench("mhfort", "-fpreprocessed", "-c", "q.f90", code=1).stderr
    assert "q.f90:4:" in errors and "q.f90:5:" in errors


@pytest.mark.usefixtures("fortran")
def test_fortran_include_lines_are_found_beside_the_source(bench: Bench) -> None:
    bench.write("sub/sizes.inc", "integer, parameter :: n = 3\n")
    text = "program p\nimplicit none\ninclude 'sizes.inc'\ninteger :: i, s(n)\n!$ws do\n"
    bench.write("sub/p.f90", f"{text}do i = 1, n\ns(i) = i\nend do\nprint *, sum(s)\nend\n")
    bench("mhfort", "sub/p.f90")
    assert bench.program(shared=True, MARKS="1").stdout.split() == ["6"]


# --- compilers of an MPI library (--mpi) ------------------------------------------------------


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_mpi_compilers_are_found_by_name_and_by_path(bench: Bench, mpi: str) -> None:
    if shutil.which(f"mpicc.{mpi}") is None:
        pytest.skip(f"{mpi} is not installed")
    path = shutil.which(f"mpicc.{mpi}")
    for kind, name in (("mhcc", "mpicc"), ("mhc++", "mpicxx"), ("mhfort", "mpifort")):
        for given in (mpi, path):
            shown = bench(kind, "--mpi", given, "--show", "-c", "x.o").stdout
            assert re.match(rf"/\S*/{name}\.{mpi} -c x\.o$", shown), shown
    bench.write(
        "a.c", "#include <mpi.h>\n" + LOOP.replace("printf", "MPI_Initialized(&sum), printf")
    )
    bench("mhcc", "--mpi", mpi, "-Wall", "a.c")
    assert "libmp" in bench("ldd", "./a.out").stdout


# --- standard streams that are closed, or write to a full device --------------------------------


@pytest.mark.parametrize(
    "words", ["--help", "--version", "--show -c a.c", "-E a.c", "-c a.c", "a.c"]
)
@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", ">/dev/full", "<&- >&- 2>&-"])
def test_streams_that_are_closed_or_full(bench: Bench, words: str, redirection: str) -> None:
    bench.write("a.c", LOOP)
    prints = words not in ("-c a.c", "a.c")
    lost = prints and redirection in (">&-", ">/dev/full", "<&- >&- 2>&-")
    bench("sh", "-c", f"mhcc {words} {redirection}", code=1 if lost else 0)
    assert (bench.folder / "a.o").exists() == (words == "-c a.c")


def test_a_closed_standard_input_is_the_compilers_to_complain_of(bench: Bench) -> None:
    for compiler in ("gcc", "mhcc"):
        bench("sh", "-c", f"{compiler} -c -x c - <&-", code=1)


@pytest.mark.parametrize("words", ["-c ./-a.c", "./-a.c", "-save-temps -MMD ./-a.c", "-c ./@a.c"])
def test_sources_that_look_like_options(bench: Bench, family: Family, words: str) -> None:
    bench.use(family)
    for name in ("-a.c", "@a.c"):
        bench.write(name, LOOP)
    plain = [family.commands["mhcc"], *words.split()]
    code = subprocess.run(plain, cwd=bench.folder, capture_output=True).returncode
    bench("mhcc", *words.split(), code=code)  # Clang's own steps fail on -save-temps ./-a.c


# --- builds by CMake, and builds that are interrupted -----------------------------------------

CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(shared LANGUAGES C CXX)
include(CheckCSourceCompiles)
check_c_source_compiles("#include <math.h>\\nint main(void) { return (int)sin(0); }" SINE)
add_library(part STATIC part.cpp)
add_executable(program main.c)
target_link_libraries(program part)
"""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_cmake_project(bench: Bench, family: Family) -> None:
    bench.use(family)
    bench.write("CMakeLists.txt", CMAKE)
    bench.write("part.h", "#define VALUE 1\n")
    part = LOOP.replace("int NAME(void)", 'extern "C" int other(void)')
    bench.write("part.cpp", f'#include "part.h"\n{part}')
    bench.write("main.c", "int other(void);\nint main(void) { return other(); }\n")
    bench("cmake", "-G", "Unix Makefiles", "-B", "build", CC="mhcc", CXX="mhc++")
    bench("cmake", "--build", "build")
    program = bench.folder / "build" / "program"
    assert bench.program(program, shared=True, MARKS="1").stderr == "mark 0 0 0 0\n"
    before = program.stat().st_mtime_ns
    bench.write("part.h", "#define VALUE 2\n")
    assert "part.cpp" in bench("cmake", "--build", "build").stdout
    assert program.stat().st_mtime_ns > before


def test_being_told_to_end_leaves_nothing(bench: Bench) -> None:
    slow = bench.write(
        "slow", '#!/bin/sh\ncase "$*" in *-E*|*-###*) exec gcc "$@";; esac\nsleep 20\n'
    )
    slow.chmod(0o755)
    for name in ("a.c", "b.c"):
        bench.write(name, LOOP)
    command = [bench.commands / "mhcc", "-save-temps", "a.c", "b.c", "-o", "program"]
    environment = {**bench.environment, "MH_CC": str(slow)}
    process = subprocess.Popen(command, cwd=bench.folder, env=environment)
    deadline = time.monotonic() + 20
    while not list(bench.temporary.glob("mhcc-*/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(bench.temporary.iterdir()) != []
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(timeout=10) == 128 + signal.SIGTERM
    assert list(bench.temporary.iterdir()) == []
