# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the tests of the wrapper compilers: the commands, and a library for the marker.

The wrapper compilers are run from this checkout. The *stub* replaces Manyhands: its `__mh_ws_mark`
returns 2, so OpenMP's own runtime runs marked loops with two threads. If MARKS is set, the
function prints its arguments on standard error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {"mhcc": "mhcc", "mhc++": "mhcxx", "mhfort": "mhfort"}
VARIABLES = {"mhcc": "MH_CC", "mhc++": "MH_CXX", "mhfort": "MH_FC"}
LAUNCHER = """\
#!{python}
import sys
sys.path.insert(0, {cli!r})
from manyhands_compilers.main import {function}
{function}()
"""
STUB = r"""
#include <stdio.h>
#include <stdlib.h>
int __mh_ws_mark(int kind, long chunk, int steal_kind, long steal_chunk);
int __mh_ws_mark(int kind, long chunk, int steal_kind, long steal_chunk) {
  if (getenv("MARKS"))
    fprintf(stderr, "mark %d %ld %d %ld\n", kind, chunk, steal_kind, steal_chunk);
  return 2;
}
"""


class Family:
    """GCC or Clang: its compilers for C and C++."""

    def __init__(self, name: str, c: str, cxx: str) -> None:
        self.name = name
        self.commands = {"mhcc": c, "mhc++": cxx, "mhfort": "gfortran"}


FAMILIES = [Family("gcc", "gcc", "g++"), Family("clang", "clang-14", "clang++-14")]


def has_openmp(compiler: str) -> bool:
    """Returns whether OpenMP programs link: Clang's runtime for OpenMP is a separate package."""
    if shutil.which(compiler) is None:
        return False
    command = [compiler, "-fopenmp", "-x", "c", "-", "-o", "/dev/null"]
    return subprocess.run(command, input=b"int main() {}", capture_output=True).returncode == 0


@pytest.fixture(scope="session", params=FAMILIES, ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> Family:
    compiler = request.param.commands["mhcc"]
    if not has_openmp(compiler):
        pytest.skip(f"{compiler} with OpenMP is not installed")
    return request.param


@pytest.fixture(scope="session")
def fortran() -> None:
    if shutil.which("gfortran") is None:
        pytest.skip("gfortran is not installed")


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory with the three commands, as in an installation."""
    folder = tmp_path_factory.mktemp("bin")
    for name, function in COMMANDS.items():
        words = {"python": sys.executable, "cli": str(ROOT / "cli"), "function": function}
        (folder / name).write_text(LAUNCHER.format(**words))
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("stub") / "libstub.so"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=STUB, text=True, check=True)
    return library


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MH_", "OMP_"))}
    kept.pop("LD_PRELOAD", None)
    return {**kept, "LC_ALL": "C", **changes}


class Bench:
    """A directory to compile in, with its own TMPDIR, and the compilers that the wrappers call."""

    def __init__(self, folder: Path, commands: Path, stub: Path) -> None:
        self.folder = folder
        self.commands = commands
        self.stub = stub
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.compilers = dict(FAMILIES[0].commands)

    def use(self, family: Family) -> None:
        self.compilers = dict(family.commands)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def environment(self) -> dict[str, str]:
        drives = {VARIABLES[kind]: compiler for kind, compiler in self.compilers.items()}
        path = f"{self.commands}{os.pathsep}{os.environ['PATH']}"
        return environment(TMPDIR=str(self.temporary), PATH=path, **drives)

    def __call__(
        self, *words: object, code: int = 0, text: str | None = None, **changes: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command in the directory."""
        result = subprocess.run(
            [str(word) for word in words],
            cwd=self.folder,
            env={**self.environment, **changes},
            input=text or "",
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert result.returncode == code, result.stderr + result.stdout
        assert "Traceback" not in result.stderr
        assert list(self.temporary.iterdir()) == [], "something was left behind"
        return result

    def program(self, name: str = "./a.out", shared: bool = False, **changes: str):
        """Runs a program, plain or with loops that two threads share.

        LLVM's runtime, at least up to version 14, loses last values of nonmonotonic dynamic loops
        with several threads. A variable makes the runtime treat all dynamic loops as monotonic.
        """
        if shared:
            changes["LD_PRELOAD"] = str(self.stub)
            changes["KMP_FORCE_MONOTONIC_DYNAMIC_SCHEDULE"] = "1"
        return self(name, **changes)


@pytest.fixture
def bench(tmp_path: Path, commands: Path, stub: Path) -> Bench:
    return Bench(tmp_path, commands, stub)
