# SPDX-License-Identifier: BSD-3-Clause
"""Tests libmanyhands-heap.so in front of ordinary programs: same results, and nothing is left.

The programs of this folder check themselves. In their line "heap: ..." the library says whether
large allocations are shared. Some tests compare MH_HEAP=off with MH_HEAP=on.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
LIBRARY = ROOT / "build" / "lib" / "libmanyhands-heap.so"
FLAGS = "-O1 -g -std=gnu11 -D_GNU_SOURCE -fno-builtin -Wall -Wextra -Werror".split()
GOOD = "heap: large allocations are shared"
OTHER = "heap: the program has an allocator of its own; run it with the C library's malloc"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles a program of this folder, once for each set of options."""
    folder = tmp_path_factory.mktemp("heap")

    def build(name: str, *options: str) -> Path:
        program = folder / f"{name}{abs(hash(options))}"
        if not program.exists():
            command = ["gcc", *FLAGS, f"-I{ROOT / 'src'}", "-o", str(program), str(HERE / name)]
            done = subprocess.run([*command, *options, "-lpthread", "-ldl"], capture_output=True)
            assert done.returncode == 0, done.stderr.decode()
        return program

    return build


def run(
    program: Sequence[str | Path],
    mode: str | None = "on",
    timeout_s: int = 110,
    limits: Sequence[tuple[int, int]] = (),
    **env: str,
) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MH_") and k != "LD_PRELOAD"}
    if mode is not None:
        kept |= {"LD_PRELOAD": str(LIBRARY), "MH_HEAP": mode}

    def limit() -> None:
        for kind, bound in limits:
            resource.setrlimit(kind, (bound, bound))

    return subprocess.run(
        list(map(str, program)),
        env=kept | env,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        preexec_fn=limit,
    )


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("mode", [None, "off", "on"])
def test_every_function_of_the_family_answers_as_the_c_library(built, mode: str | None) -> None:
    said = lines(run([built("family.c")], mode))
    assert said[-1] == "right"
    assert said[1] == f"shared: {int(mode == 'on')}"
    assert (said[0] == GOOD) == (mode == "on")


def test_auto_is_the_default_and_off_is_said(built) -> None:
    assert lines(run([built("family.c")], "", MH_HEAP=""))[0] == GOOD
    assert lines(run([built("family.c")], "off"))[0] == "heap: MH_HEAP=off turns the heap off"


def test_eight_threads_allocate_fork_exec_and_end(built) -> None:
    assert lines(run([built("stress.c"), "60"])) == [GOOD, "right"]


@pytest.mark.parametrize("options", [(), ("-no-pie",), ("-Wl,-z,norelro",)])
def test_static_arrays_are_shared_where_they_lie(built, options: tuple[str, ...]) -> None:
    program = built("statics.c", *options)
    assert lines(run([program])) == [GOOD, "shared: 1 1", "right"]
    assert lines(run([program], None)) == ["heap: not here", "shared: 0 0", "right"]


def test_blocks_live_from_constructors_to_the_very_end(built, tmp_path: Path) -> None:
    first, late = tmp_path / "libfirst.so", tmp_path / "late.so"
    command = ["gcc", *FLAGS, "-shared", "-fPIC", str(HERE / "module.c"), "-o"]
    subprocess.run([*command, str(first)], check=True)
    subprocess.run([*command, str(late)], check=True)
    program = built("lifetimes.c", f"-L{tmp_path}", "-lfirst", f"-Wl,-rpath,{tmp_path}")
    assert lines(run([program, late])) == [GOOD, "right"]


@pytest.mark.parametrize("kind", ["address", "data"])
@pytest.mark.parametrize("mode", [None, "on"])
def test_a_limit_that_the_program_sets_is_met(built, kind: str, mode: str | None) -> None:
    assert lines(run([built("limits.c"), kind], mode))[-1] == "blocks: as limited"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (resource.RLIMIT_AS, "heap: address space is limited; set 'ulimit -v unlimited'"),
        (resource.RLIMIT_DATA, "heap: private memory is limited; set 'ulimit -d unlimited'"),
        (resource.RLIMIT_FSIZE, "heap: the size of files is limited; set 'ulimit -f unlimited'"),
    ],
)
def test_a_limited_program_has_no_heap_and_is_told_why(built, kind: int, why: str) -> None:
    said = lines(run([built("family.c")], limits=[(kind, 8 << 30)]))
    assert said[0] == why
    assert said[1:] == ["shared: 0", "right"]


def test_a_program_with_its_own_malloc_is_left_alone(built) -> None:
    assert lines(run([built("own_allocator.c")])) == [OTHER, "right"]


def test_a_program_with_a_sanitizer_is_left_alone(built) -> None:
    program = built("statics.c", "-fsanitize=address", "-static-libasan")
    said = lines(run([program], ASAN_OPTIONS="detect_leaks=0"))
    assert said[1:] == ["shared: 0 0", "right"]
    assert said[0] != GOOD


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_program_under_valgrind_is_left_alone(built) -> None:
    said = lines(run(["valgrind", "-q", "--error-exitcode=9", built("statics.c")]))
    assert said == [
        "heap: a sanitizer or Valgrind watches this program's memory",
        "shared: 0 0",
        "right",
    ]


@pytest.mark.parametrize("permitted", [300, 1024, 4096])
def test_descriptors_are_the_programs_own(built, permitted: int) -> None:
    done = run([built("descriptors.c")], limits=[(resource.RLIMIT_NOFILE, permitted)])
    assert lines(done) == [GOOD, "right"]


FORKS = (
    "slack",
    "block stack",
    "static stack",
    "signal stack",
    "thread stacks",
    "handler",
    "masks",
    "attributes",
    "attributes without descriptor",
    "advice",
)


@pytest.mark.parametrize("mode", [None, "on"])
@pytest.mark.parametrize("case", FORKS)
def test_blocks_around_fork_are_as_the_c_librarys(built, case: str, mode: str | None) -> None:
    assert lines(run([built("forks.c"), case], mode, 60))[-1] == "right"


@pytest.mark.parametrize("mode", [None, "on"])
def test_handlers_of_fork_allocate(built, tmp_path: Path, mode: str | None) -> None:
    library = tmp_path / "libatfork.so"
    command = ["gcc", *FLAGS, "-shared", "-fPIC", str(HERE / "atfork.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    program = built("atfork_user.c", f"-L{tmp_path}", "-latfork", f"-Wl,-rpath,{tmp_path}")
    assert lines(run([program], mode, 60))[-1] == "right"


@pytest.mark.parametrize("mode", [None, "on"])
@pytest.mark.parametrize("case", ["lengths", "no descriptor", "read only", "mapped over"])
def test_pages_that_are_not_needed_read_as_zero(built, case: str, mode: str | None) -> None:
    assert lines(run([built("advice.c"), case], mode, 60)) == ["right"]


ALTERATIONS = ("read only", "closed", "not for children", "mapped over", "a stack")


@pytest.mark.parametrize("mode", [None, "on"])
@pytest.mark.parametrize("case", ALTERATIONS)
def test_new_memory_is_not_as_the_program_has_altered_its_blocks(
    built, case: str, mode: str | None
) -> None:
    assert lines(run([built("growth.c"), case], mode, 60)) == ["right"]


@pytest.mark.parametrize("mode", [None, "on"])
@pytest.mark.parametrize("case", ["malloc", "fork", "stack"])
def test_no_call_acts_on_a_pending_cancellation(built, case: str, mode: str | None) -> None:
    assert lines(run([built("cancelled.c"), case], mode, 60)) == ["right"]


# The functions of the C library that a library below malloc is tempted to call, of those that POSIX
# or glibc makes cancellation points.
CANCELLATION_POINTS = set(
    "close creat fallocate fdatasync fsync getrandom msync nanosleep open open64 openat openat64 "
    "pause poll posix_fallocate posix_fallocate64 pread pread64 pwrite pwrite64 read readv recvmsg "
    "select sendmsg usleep wait waitpid write writev".split()
)


def test_the_library_calls_no_cancellation_point() -> None:
    command = ["nm", "-D", "--undefined-only", "--format=posix", "--without-symbol-versions"]
    said = subprocess.run([*command, LIBRARY], capture_output=True, text=True, check=True).stdout
    wanted = {line.split()[0].split("@")[0] for line in said.splitlines()}
    assert "mmap" in wanted or "mmap64" in wanted
    assert wanted & CANCELLATION_POINTS == set()


FUZZ_ROUNDS = 10  # rounds of a batch
FUZZ_STEPS = 150


@pytest.mark.parametrize("batch", range(4))
def test_random_programs_hold_as_with_the_c_library(built, batch: int, request) -> None:
    """Runs fuzz.c for some seeds. The first batch begins with `--fuzz-seed`."""
    option = request.config.option
    first = 1_000_000 * batch + (1 if option.fuzz_seed is None else option.fuzz_seed)
    program = built("fuzz.c")
    for seed in range(first, first + (option.fuzz_rounds or FUZZ_ROUNDS)):
        for mode in ("on",) if seed % 5 else ("on", None):
            done = run([program, str(seed), str(FUZZ_STEPS)], mode, 60)
            said = f"seed {seed}, MH_HEAP={mode}: {done.returncode}\n{done.stderr}"
            assert done.returncode == 0 and done.stdout.endswith("right\n"), said


LATE = """
#include <stdlib.h>
#include "heap.h"
int main(int count, char** arguments) {
  void* late = dlopen(arguments[count - 1], RTLD_NOW | RTLD_GLOBAL);
  EXPECT(late != NULL);
  void* (*allocate)(size_t) = (void* (*)(size_t))dlsym(late, "malloc");
  char* block = allocate(1 << 20);
  EXPECT(block != NULL && !shared(block, 1));
  free(block);
  tell();
  return 0;
}
"""


def test_loaded_late_it_serves_nothing(tmp_path: Path) -> None:
    (tmp_path / "late.c").write_text(LATE)
    where = [f"-I{ROOT / 'src'}", f"-I{HERE}", str(tmp_path / "late.c")]
    program = tmp_path / "late"
    subprocess.run(["gcc", *FLAGS, *where, "-o", str(program), "-ldl"], check=True)
    assert lines(run([program, LIBRARY], None, MH_HEAP="on")) == [OTHER]


MULTIPROCESSING = """
import multiprocessing as mp, os, subprocess, sys
data = bytearray(30 << 20)
data[7 << 20] = 9
def work(i):
    assert data[7 << 20] == 9
    data[7 << 20] = i % 200 + 20
    mine = bytearray(2 << 20)
    mine[-1] = i
    return len(mine) + data[7 << 20] * 0 + i
if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with mp.Pool(3, maxtasksperchild=1) as pool:
        assert sum(pool.map(work, range(9), chunksize=1)) == 9 * (2 << 20) + 36
    assert data[7 << 20] == 9
    assert subprocess.run(["sh", "-c", "echo $((6*7))"], capture_output=True).stdout == b"42\\n"
    queue = mp.Queue()
    one = mp.Process(target=lambda q: q.put(bytes(5 << 20)), args=(queue,)) \
        if sys.argv[1] == "fork" else mp.Process(target=print, args=("",), daemon=True)
    one.start()
    if sys.argv[1] == "fork": assert len(queue.get()) == 5 << 20
    one.join()
    print("right", any("manyhands-heap (" in line for line in open("/proc/self/maps")))
"""


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_python_multiprocessing(tmp_path: Path, start: str) -> None:
    program = tmp_path / "pool.py"
    program.write_text(MULTIPROCESSING)
    assert lines(run([sys.executable, program, start]))[-1] == "right True"


FORTRAN = """
program p
  implicit none
  real(8) :: a(500000)
  common /big/ a
  real(8), allocatable :: b(:)
  integer :: i
  a = 1d0
  allocate(b(1000000))
  b = 2d0
  do i = 1, 20
    deallocate(b)
    allocate(b(100000 * i))
    b = dble(i)
  end do
  if (sum(a) == 500000d0 .and. sum(b) == 40000000d0) print '(a)', 'right'
end program
"""


@pytest.mark.skipif(shutil.which("gfortran") is None, reason="gfortran is not installed")
def test_fortran_common_blocks_and_allocatables(tmp_path: Path) -> None:
    (tmp_path / "p.f90").write_text(FORTRAN)
    subprocess.run(["gfortran", "-O1", "-o", "p", "p.f90"], cwd=tmp_path, check=True)
    assert lines(run([tmp_path / "p"])) == ["right"]
