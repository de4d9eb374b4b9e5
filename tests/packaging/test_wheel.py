# SPDX-License-Identifier: BSD-3-Clause
"""Tests the wheel: assembled from the build, installed into an empty environment, and used without
a compiler.

The libraries of build/ are linked anew. Only a page of C is compiled. pip installs the wheel, MPICH
and mpi4py. The PATH has nothing but this environment.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from harness.steps import LIMIT_S, done, succeeded

ROOT = Path(__file__).resolve().parents[2]
MPI = ["mpich==5.0.2", "mpi4py==4.1.2"]  # as in scripts/bootstrap
# Libraries of the GNU C library, which every system for which the wheel is made has.
GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}

SCRIPT = """
# Rank 0 sends ten messages of 4 MB; rank 1 prints a digest of what has arrived.
import hashlib
from mpi4py import MPI
world = MPI.COMM_WORLD
data = bytearray(4 << 20)
digest = hashlib.sha256()
for i in range(10):
    if world.Get_rank() == 0:
        data[:] = bytes([i]) * len(data)
        world.Send([data, MPI.BYTE], dest=1)
    elif world.Get_rank() == 1:
        world.Recv([data, MPI.BYTE], source=0)
        digest.update(data)
if world.Get_rank() == 1:
    print("digest", digest.hexdigest())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / ".hwloc" / "lib" / "libhwloc.a").exists():
        pytest.skip("no static hwloc: the source package of hwloc could not be had")
    folder = tmp_path_factory.mktemp("wheel")
    if "MH_WHEEL:BOOL=ON" not in (ROOT / "build" / "CMakeCache.txt").read_text():
        succeeded(["cmake", "-S", ROOT, "-B", ROOT / "build", "-DMH_WHEEL=ON", "-Wno-dev"])
    succeeded(["cmake", "--build", ROOT / "build", "--target", "wheel-files"])
    succeeded([sys.executable, ROOT / "packaging" / "wheel" / "assemble.py", "--out", folder])
    return next(folder.glob("*.whl"))


class Machine:
    """An environment with the wheel and an MPI, and no other directory on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        self.environment = {"PATH": str(self.bin), "HOME": str(folder), "COLUMNS": "80"}

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        program = self.bin / str(words[0])
        return done([program, *words[1:]], cwd=self.folder, env=self.environment)

    def libraries(self) -> list[Path]:
        """Returns the libraries that `mh preload` names."""
        return [Path(name) for name in self.run("mh", "preload").stdout.strip().split(":")]


@pytest.fixture(scope="module")
def machine(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    succeeded([sys.executable, "-m", "venv", machine.folder / "venv"])
    pip = [machine.bin / "pip", "install", "--quiet", "--disable-pip-version-check"]
    succeeded([*pip, "--constraint", ROOT / "requirements.txt", wheel, *MPI])
    return machine


pytestmark = pytest.mark.timeout(LIMIT_S * 2)


def test_the_wheel_is_for_glibc_2_27_and_any_python_3(wheel: Path) -> None:
    assert re.fullmatch(
        r"manyhands-[\d.]+-py3-none-manylinux_2_27_x86_64(\.[\w.]+)?\.whl", wheel.name
    )
    assert wheel.stat().st_size < 8e6


def test_a_script_is_helped_without_a_compiler(machine: Machine) -> None:
    (machine.folder / "script.py").write_text(SCRIPT)
    plain = machine.run("mpiexec", "-n", "2", "python", "script.py")
    helped = machine.run("mh", "run", "-n", "2", "python", "script.py")
    assert plain.returncode == helped.returncode == 0, plain.stderr + helped.stderr
    assert plain.stdout.startswith("digest ") and helped.stdout == plain.stdout
    assert "manyhands:" not in plain.stderr
    assert re.search(r"^manyhands: shared +10 messages, 41\.9 MB", helped.stderr, re.MULTILINE)
    by_both = re.search(r"^manyhands: by both ends +41\.9 MB", helped.stderr, re.MULTILINE)
    assert by_both, helped.stderr


def test_mh_finds_the_files_of_the_wheel(machine: Machine) -> None:
    library = machine.libraries()[-1]
    assert [path.name for path in machine.libraries()] == ["libmanyhands-heap.so", library.name]
    assert library.is_relative_to(machine.folder) and library.exists()
    assert "MH_THRESHOLD" in machine.run("mh", "config").stdout
    simulated = machine.run("mh", "simulate", "--help")
    assert simulated.returncode == 0, simulated.stderr
    for name in ("mh-tune", "mh-simulate", "mh-top"):
        program = library.parents[1] / "bin" / name
        assert done([program, "--help"]).returncode in (0, 2)  # it starts: the code is not 127
    assert (machine.folder / "venv" / "share" / "man" / "man1" / "mh-run.1.gz").exists()


@pytest.mark.parametrize("kind", ["mhcc", "mhc++", "mhfort"])
def test_a_compiler_says_what_it_needs(machine: Machine, kind: str) -> None:
    said = machine.run(kind, "--version").stdout
    assert re.search(rf"^{re.escape(kind)} \(Manyhands .*\b(needs|drives)\b", said, re.MULTILINE)
    assert " needs " in said and "compiler" in said and "MPI" in said


def test_the_libraries_need_glibc_alone_and_show_nothing_of_others(machine: Machine) -> None:
    folder = machine.libraries()[0].parent
    libraries = sorted(folder.glob("*.so"))
    names = {"", "-abi", "-heap", "-mpich", "-openmpi"}
    assert {path.name for path in libraries} == {f"libmanyhands{name}.so" for name in names}
    for path in libraries:
        dynamic = succeeded(["readelf", "--dynamic", "--wide", path])
        assert set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)) <= GLIBC
        assert "RPATH" not in dynamic and "RUNPATH" not in dynamic
        symbols = succeeded(["nm", "--dynamic", path])
        assert re.findall(r"hwloc\w*|\w*fmt\w*|_ZNSt\w+|_ZNKSt\w+", symbols) == []


# --- functions that an older glibc lacks ------------------------------------------------------

PROGRAM = """
// Exceptions, random numbers and timed locks, with the wheel's functions in place of glibc's.
#include <sys/stat.h>
#include <unistd.h>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
using namespace std::chrono_literals;

static int depth(int left) {
  if (left == 0) throw std::runtime_error("thrown");
  return depth(left - 1) + 1;
}

int main(int, char** words) {
  int caught = 0;
  try {
    depth(20);
  } catch (const std::runtime_error&) {
    ++caught;
  }
  struct stat by_path, by_file;
  std::FILE* file = std::fopen(words[0], "r");
  const bool same = stat(words[0], &by_path) == 0 && fstat(fileno(file), &by_file) == 0 &&
                    by_path.st_ino == by_file.st_ino && by_path.st_size == by_file.st_size;
  const bool absent = stat("/absent/file", &by_path) == -1 && errno == ENOENT;
  std::random_device random;
  bool differ = false;
  for (unsigned first = random(), i = 0; i < 4; ++i) differ |= random() != first;
  std::recursive_timed_mutex mutex;
  mutex.lock();
  bool late = false;
  std::thread([&] { late = !mutex.try_lock_for(20ms); }).join();
  mutex.unlock();
  std::thread([&] { late = late && mutex.try_lock_for(1h); }).join();
  std::printf("%d %d %d %d %d %d", caught, same, absent, differ, late, gettid() == getpid());
}
"""


def test_the_functions_of_the_wheel_do_what_those_of_glibc_do(tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(PROGRAM)
    own, program = tmp_path / "compat.o", tmp_path / "program"
    succeeded(["cc", "-O1", "-c", ROOT / "packaging" / "wheel" / "compat.c", "-o", own])
    static = ["-static-libstdc++", "-static-libgcc"]
    succeeded(["c++", "-std=c++20", *static, tmp_path / "program.cpp", own, "-o", program])
    assert succeeded([program]) == "1 1 1 1 1 1"
    used = succeeded(["nm", "--dynamic", "--undefined-only", program])
    names = r"_dl_find_object|arc4random|fstat|gettid|clocklock|\bstat\b"
    assert re.findall(names, used) == []


# --- stand-ins: libraries with the symbols of an older glibc ----------------------------------

LISTING = """
   11: 0000000000084560    33 FUNC    GLOBAL DEFAULT   15 create@GLIBC_2.2.5
   12: 0000000000084560    33 FUNC    GLOBAL DEFAULT   15 create@@GLIBC_2.34
   13: 0000000000084560    33 IFUNC   GLOBAL DEFAULT   15 copy@@GLIBC_2.14
   14: 0000000000084560    33 FUNC    GLOBAL DEFAULT   15 copy@GLIBC_2.2.5
   15: 0000000000084560     8 OBJECT  WEAK   DEFAULT   15 environ@@GLIBC_2.2.5
   16: 0000000000084560    33 FUNC    GLOBAL DEFAULT   15 random@@GLIBC_2.36
   17: 0000000000084560    33 FUNC    GLOBAL DEFAULT   15 inner@@GLIBC_PRIVATE
"""


@pytest.fixture(scope="module")
def old_glibc() -> ModuleType:
    path = ROOT / "packaging" / "wheel" / "old_glibc.py"
    spec = spec_from_file_location("old_glibc", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_symbol_has_its_newest_version_up_to_the_limit(old_glibc: ModuleType) -> None:
    found = old_glibc.symbols_of(LISTING, (2, 27))
    assert found == [
        ("copy", (2, 14), 0),
        ("create", (2, 2, 5), 0),
        ("environ", (2, 2, 5), 8),
    ]
    assert "GLIBC_2.2.5 { global: create; environ; };" in old_glibc.version_script(found)


def test_a_stand_in_offers_what_it_was_told_to(old_glibc: ModuleType, tmp_path: Path) -> None:
    old_glibc.link("cc", tmp_path, "libx.so.1", old_glibc.symbols_of(LISTING, (2, 34)))
    listed = succeeded(["readelf", "--dyn-syms", "--wide", tmp_path / "libx.so.1"])
    assert "create@@GLIBC_2.34" in listed and "random" not in listed
