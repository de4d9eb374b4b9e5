# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh doctor PROGRAM`: its report on programs by GCC and Clang with loops of every kind."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from manyhands import checkup, loops
from manyhands.finding import Finding, Report

from .conftest import MH, Build, Mh, without_right_to_read

LLVM = ["-L/usr/lib/llvm-14/lib", "-Wl,-rpath,/usr/lib/llvm-14/lib"]
COMPILERS = {"gcc": ["gcc", "-fopenmp"], "clang": ["clang-14", "-fopenmp=libomp", *LLVM]}

# Parts of the C program that source() writes: the program has a function with a parallel loop for
# each schedule clause, and `main` calls these functions.
HEAD = "extern int x[1000]; int x[1000];\n"
BODY = "for (int i = 0; i < 1000; ++i) x[i] += i;\n}\n"


def source(*schedules: str) -> str:
    text = HEAD
    for number, schedule in enumerate(schedules):
        text += f"__attribute__((noinline)) void f{number}(void) {{\n"
        text += f"#pragma omp parallel for {schedule}\n{BODY}"
    called = "".join(f"f{number}(); " for number in range(len(schedules)))
    return text + f"int main(void) {{ {called}return x[1]; }}\n"


MIXED = source("schedule(dynamic)", "schedule(dynamic, 7)", "schedule(guided)", "schedule(static)")


def built(folder: Path, compiler: str, text: str, *flags: str, name: str = "app") -> Path:
    words = COMPILERS[compiler]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    file = folder / name
    command = [words[0], "-x", "c", "-", "-x", "none", "-O2", "-o", str(file), *words[1:], *flags]
    subprocess.run(command, input=text, text=True, check=True, cwd=folder)
    return file


def looked_at(file: Path) -> tuple[dict[str, Finding], str]:
    """Returns the findings for a program by name, and the conclusion."""
    report = Report()
    conclusion = checkup.examine_program(report, str(file))
    return {item.name: item for item in report.findings}, conclusion


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("flags", [[], ["-no-pie"], ["-fno-plt"], ["-s"]], ids=" ".join)
def test_loops_are_counted(tmp_path: Path, compiler: str, flags: list[str]) -> None:
    found = loops.examine(built(tmp_path, compiler, MIXED, *flags))
    assert [path.name.split(".")[0] for path in found.run_times] in (["libgomp"], ["libomp"])
    (app,) = found.objects
    assert (app.regions, app.unmarked, app.static_loops, app.marked) == (4, 3, 1, 0)
    kinds = {"dynamic": 2, "guided": 1} if compiler == "gcc" else {"any": 3}
    assert app.dynamic_loops == kinds


def test_program_with_loops_that_may_be_shared(library: Path, tmp_path: Path) -> None:
    found, _ = looked_at(built(tmp_path, "gcc", MIXED))
    assert found["loops of app"].verdict == "ok"
    assert found["loops of app"].found == (
        "4 parallel regions, 3 loops that can be shared (dynamic 2, guided 1), 1 static loop, "
        "1 region that MH_OPENMP=static can share"
    )


@pytest.mark.parametrize("compiler", COMPILERS)
def test_program_with_static_loops_only(library: Path, tmp_path: Path, compiler: str) -> None:
    app = built(tmp_path, compiler, source("", "schedule(static, 3)"))
    found, _ = looked_at(app)
    assert found["loops of app"].found == (
        "2 parallel regions, 2 static loops, 2 regions that MH_OPENMP=static can share"
    )
    assert found["loops of app"].verdict == "note"
    assert found["loops of app"].advice.startswith(
        "run with MH_OPENMP=static and OMP_NUM_THREADS=16"
    )


TEAMS = """\
int own;
void f0(void) {
#pragma omp parallel
  {
#pragma omp single
    x[0] += 1;
#pragma omp for nowait
    for (int i = 0; i < 1000; ++i) x[i] += own;
  }
}
int main(void) { f0(); return x[1]; }
"""


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TEAMS, "single or sections 1"),
        (TEAMS.replace("int own", "_Thread_local int own"), "thread-local data"),
    ],
)
def test_regions_that_need_a_real_team(
    library: Path, tmp_path: Path, compiler: str, text: str, reason: str
) -> None:
    found, _ = looked_at(built(tmp_path, compiler, HEAD + text))
    told = found["loops of app"]
    assert f"0 regions that MH_OPENMP=static can share (others: {reason}" in told.found
    assert "schedule(runtime) and run with OMP_SCHEDULE=dynamic" in told.advice


def test_a_schedule_of_the_run_needs_the_run_to_say_it(
    monkeypatch: pytest.MonkeyPatch, library: Path, tmp_path: Path
) -> None:
    app = built(tmp_path, "gcc", source("schedule(runtime)"))
    monkeypatch.delenv("OMP_SCHEDULE", raising=False)
    found = looked_at(app)[0]["loops of app"]
    assert (found.verdict, found.advice) == ("note", "run with OMP_SCHEDULE=dynamic")
    monkeypatch.setenv("OMP_SCHEDULE", "guided,4")
    found = looked_at(app)[0]["loops of app"]
    assert (found.verdict, found.advice) == ("ok", "")


def test_marked_loops_are_told(library: Path, tmp_path: Path) -> None:
    mark = "int __mh_ws_mark(int, long, int, long) __attribute__((weak));\n"
    threads = "num_threads(__mh_ws_mark ? __mh_ws_mark(2, 0, 0, 0) : 1) schedule(dynamic)"
    found, _ = looked_at(built(tmp_path, "gcc", mark + source(threads, "schedule(dynamic)")))
    assert found["loops of app"].found == (
        "2 parallel regions, 1 marked loop, 1 other loop that can be shared"
    )


def test_two_run_times_are_told_and_nothing_is_promised(library: Path, tmp_path: Path) -> None:
    built(tmp_path, "clang", MIXED.replace("main", "other"), "-shared", "-fPIC", name="libo.so")
    words = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-lo", "-Wl,-rpath,$ORIGIN"]
    found, conclusion = looked_at(built(tmp_path, "gcc", MIXED, *words))
    assert "libgomp" in found["OpenMP"].found and "libomp" in found["OpenMP"].found
    assert found["OpenMP"].verdict == "note"
    assert "no loops are shared" in found["OpenMP"].advice
    assert found["loops of libo.so"].found.startswith("4 parallel regions")
    assert "MH_OPENMP=1" not in conclusion


def test_which_mpi(library: Path, build: Build, compiled: Callable[[Build], Path]) -> None:
    found, conclusion = looked_at(compiled(build))
    title = {"m": "MPICH", "o": "Open MPI", "a": "standard-ABI MPI"}[build.name[0]]
    assert found["MPI"].found.startswith(f"{title} /")
    assert Path(build.launcher).name in found["MPI"].found
    assert (found["MPI"].verdict, found["OpenMP"].found) == ("ok", "none")
    assert conclusion == "Waiting ranks help to copy large messages between ranks of a node."


def test_what_an_mpi_program_may_expect(library: Path, tmp_path: Path) -> None:
    if shutil.which("mpicc.mpich") is None:
        pytest.skip("mpich4 is not installed")
    flags = subprocess.run(["mpicc.mpich", "-link_info"], capture_output=True, text=True)
    more = ["-Wl,--no-as-needed", *flags.stdout.split()[1:]]
    told = looked_at(built(tmp_path, "gcc", MIXED, *more))[1]
    assert "MH_OPENMP=1 shares up to 3 loops." in told
    assert told.endswith("OMP_NUM_THREADS=16 shares up to 1 region with static loops.")
    conclusion = looked_at(built(tmp_path, "gcc", HEAD + TEAMS, *more))[1]
    assert conclusion.endswith("None of the program's OpenMP loops can be shared without a change.")


@pytest.mark.parametrize("kind", ["static", "set-user-ID"])
def test_what_nothing_can_be_preloaded_into(library: Path, tmp_path: Path, kind: str) -> None:
    app = built(tmp_path, "gcc", source(""), *(["-static"] if kind == "static" else []))
    app.chmod(0o755 if kind == "static" else 0o4755)
    found, conclusion = looked_at(app)
    assert found.keys() == {"program"}
    assert found["program"].verdict == "limit"
    assert kind in found["program"].found
    assert found["program"].advice
    assert conclusion == "The program runs without help from Manyhands."


def test_the_command(mh: Mh, library: Path, tmp_path: Path) -> None:
    result = mh("doctor", "./absent")
    assert result.returncode == 127
    assert result.stderr == "manyhands: cannot find the program ./absent: check the path\n"
    app = built(tmp_path, "gcc", MIXED)
    result = mh("doctor", "./app")
    assert result.returncode == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "loops of app" in result.stdout
    app.chmod(0o4755)
    result = mh("doctor", "--json", "./app")
    report = json.loads(result.stdout)
    assert result.returncode == 1
    assert (report["program"], report["findings"][0]["verdict"]) == ("./app", "limit")


def test_a_program_that_may_not_be_read_is_unknown(library: Path, tmp_path: Path) -> None:
    app = Path(shutil.copy("/bin/true", tmp_path / "app"))
    words = [*without_right_to_read(app), *MH, "doctor", "--json", app]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert "may be executed but not read" in result.stdout, result.stderr


def test_what_cannot_be_executed(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    with pytest.raises(SystemExit) as ended:
        looked_at(tmp_path / "data")
    assert ended.value.code == 126


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 200])
def test_a_damaged_file_has_no_loops(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "app").write_bytes(data)
    assert loops.image_of(tmp_path / "app") is None


def test_a_file_that_is_cut_ends_nothing(tmp_path: Path) -> None:
    app = built(tmp_path, "gcc", MIXED)
    whole = loops.image_of(app)
    assert whole is not None
    for at in range(0, len(whole.data), 997):
        image = loops.Image(whole.data[:at], whole.sections)
        loops.loops_of(app, image, loops.dynamic_symbols(image))
