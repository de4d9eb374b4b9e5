# SPDX-License-Identifier: BSD-3-Clause
"""The commands `mhcc`, `mhc++` and `mhfort`.

The options of these commands are few and begin with two dashes; every other word is the compiler's.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from manyhands_unix import __version__, streams

HELP = """\
usage: {kind} [--mpi mpich|openmpi|PATH] [--share-loops] [--show] WORDS...

Compiles {language} with the compiler of an MPI and translates `{pragma}` directives,
which mark loops. When the program runs under `mh run`, waiting ranks of the
same machine may take iterations of these loops. All other options go to the
compiler. Sources without directives are compiled unchanged.

  --mpi mpich      use the compiler of this MPI: mpich, openmpi, or the path of
                   an mpicc. Default: {variable} if it is set (a compiler without
                   MPI is enough), else {mpicc} on the PATH
  --share-loops    also share OpenMP loops without a schedule; needs -fopenmp
  --show           print the commands instead of running them
  --version        print the versions of the compiler and of Manyhands
  --help           print this text (--help=KIND is an option of the compiler)

Example: {kind} -O2 -c solver{extension}
         cmake -DCMAKE_{cmake}_COMPILER={kind} ..
"""
WORDS = {
    "mhcc": ("C", "#pragma ws", "MH_CC", "mpicc", ".c", "C"),
    "mhc++": ("C++", "#pragma ws", "MH_CXX", "mpicxx", ".cpp", "CXX"),
    "mhfort": ("Fortran", "!$ws", "MH_FC", "mpifort", ".f90", "Fortran"),
}


class Own:
    """The options of the wrapper compiler, and the words that are the compiler's."""

    def __init__(self, words: list[str]) -> None:
        self.mpi: str | None = None
        self.show = self.help = self.version = self.share_loops = False
        self.rest: list[str] = []
        following = iter(words)
        for word in following:
            if word == "--mpi":
                self.mpi = next(following, "")
            elif word.startswith("--mpi="):
                self.mpi = word[6:]
            elif word.startswith("-X"):
                self.rest += [word, *[value for value in [next(following, None)] if value]]
            elif word in ("--show", "--help", "--version", "--share-loops"):
                setattr(self, word[2:].replace("-", "_"), True)
            else:
                self.rest.append(word)


def print_help(kind: str) -> None:
    names = ("language", "pragma", "variable", "mpicc", "extension", "cmake")
    print(HELP.format(kind=kind, **dict(zip(names, WORDS[kind], strict=True))), end="")


def fail(kind: str, message: str) -> NoReturn:
    print(f"{kind}: {message}", file=sys.stderr)
    sys.exit(1)


def run(kind: str, words: list[str]) -> int:
    from manyhands_compilers import find

    own = Own(words)
    if own.help:
        print_help(kind)
        return 0
    if own.mpi == "":
        fail(kind, "--mpi needs a value: mpich, openmpi or the path of an mpicc")
    try:
        if own.version:
            return show_version(kind, own.mpi)
        command = find.compiler(kind, own.mpi)
        from manyhands_compilers import drive

        return drive.Driver(kind, command, own.rest, own.show, own.share_loops).run()
    except find.NoCompiler as problem:
        fail(kind, str(problem))


def show_version(kind: str, mpi: str | None) -> int:
    """Prints the output of the compiler's --version first, by which build systems recognise the
    compiler, then our version.

    Without a compiler, prints our version and the reason why there is no compiler.
    """
    import subprocess

    from manyhands_compilers import find

    try:
        command = find.compiler(kind, mpi)
    except find.NoCompiler as problem:
        print(f"{kind} (Manyhands {__version__}) needs {find.NEEDS[kind]}: {problem}")
        return 1 if mpi else 0
    code = subprocess.run([*command, "--version"]).returncode
    drives = f"{kind} (Manyhands {__version__}) drives {' '.join(command)}"
    print(drives if code == 0 else f"{drives}, which needs {find.NEEDS[kind]}")
    return code


def start(kind: str) -> NoReturn:
    streams.prepare()
    code = 1
    try:
        code = run(kind, sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    except OSError as error:  # a full disk, say
        where = f"{error.filename}: " if error.filename else ""
        print(f"{kind}: {where}{error.strerror or error}", file=sys.stderr)
    finally:
        sys.stdout.flush()
    sys.exit(code)


def mhcc() -> NoReturn:
    start("mhcc")


def mhcxx() -> NoReturn:
    start("mhc++")


def mhfort() -> NoReturn:
    start("mhfort")
