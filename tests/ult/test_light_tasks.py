# SPDX-License-Identifier: BSD-3-Clause
"""Tests light tasks from outside: the guide's program, the C interface, gdb and Valgrind."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "lib"
HERE = Path(__file__).parent
LIMIT_S = 60


def compiled(source: Path, target: Path, *options: str) -> Path:
    compiler = ["gcc", "-std=c11"] if source.suffix == ".c" else ["g++", "-std=c++20"]
    command = [*compiler, "-O2", "-Wall", "-Wextra", "-Werror", *options, str(source)]
    command += [f"-I{ROOT / 'include'}", f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}"]
    subprocess.run([*command, "-lmanyhands-ult", "-o", str(target)], check=True)
    return target


def output(*command: str | Path) -> str:
    run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_the_program_of_the_guide_prints_what_the_guide_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "light-tasks.md").read_text()
    programs = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 1
    (tmp_path / "mailbox.cpp").write_text(programs[0])
    lines = output(compiled(tmp_path / "mailbox.cpp", tmp_path / "mailbox")).splitlines()
    promised = re.search(r"It prints `(.*?)` and `(.*?)`", page)
    assert promised is not None and lines == list(promised.groups())


def test_async_without_a_result_is_an_error_in_words(tmp_path: Path) -> None:
    source = tmp_path / "nothing.cpp"
    source.write_text("#include <manyhands/ult.hpp>\nvoid f() { (void)mh::ult::async([] {}); }\n")
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'include'}", source]
    run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    errors = re.findall(r"error: (.*)", run.stderr)
    assert len(errors) == 1
    assert "async() needs a result: use spawn() or a Group without one" in errors[0]


def test_every_call_of_the_c_interface(tmp_path: Path) -> None:
    assert output(compiled(HERE / "c_calls.c", tmp_path / "c_calls")) == "all good\n"


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a program that stops (SIGTRAP) while three tasks wait."""
    target = tmp_path_factory.mktemp("ult") / "waiting"
    return compiled(HERE / "waiting.cpp", target, "-fno-inline")


def gdb(*arguments: str | Path) -> str:
    assert shutil.which("gdb"), "gdb is not installed: run scripts/bootstrap test"
    script = ROOT / "libs" / "ult" / "tasks_gdb.py"
    commands = [f"source {script}", "ult tasks", "ult backtrace", "ult backtrace 0 9999"]
    words = [word for command in commands for word in ("-ex", command)]
    run = subprocess.run(
        ["gdb", "-q", "-batch", "-nx", *arguments, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    return run.stdout + run.stderr


def check_tasks(shown: str) -> None:
    receivers = re.findall(r"^ult-\d slot \d+ receiver: blocked$", shown, re.MULTILINE)
    assert len(receivers) == 2 * 3, shown  # three tasks, shown by two commands
    assert re.search(r"^ult-\d slot \d+ trap: running$", shown, re.MULTILINE), shown
    assert len(re.findall(r"^  #\d+ .* in wait_for_a_message", shown, re.MULTILINE)) == 3, shown
    assert re.search(r"^0 tasks$", shown, re.MULTILINE), shown  # for the slot that does not exist
    assert "make_fcontext" not in shown


def test_gdb_shows_the_tasks_of_a_live_process(waiting: Path) -> None:
    check_tasks(gdb(waiting, "-ex", "set debuginfod enabled off", "-ex", "run"))


def test_gdb_shows_the_tasks_in_a_core_file(waiting: Path, tmp_path: Path) -> None:
    core = tmp_path / "core"
    made = gdb(waiting, "-ex", "run", "-ex", f"generate-core-file {core}")
    assert core.exists(), made
    check_tasks(gdb(waiting, core))


def test_valgrind_has_nothing_to_say(tmp_path: Path) -> None:
    assert shutil.which("valgrind"), "valgrind is not installed: run scripts/bootstrap test"
    program = compiled(HERE / "c_calls.c", tmp_path / "c_calls", "-g")
    run = subprocess.run(
        ["valgrind", "--error-exitcode=9", "--leak-check=full", program],
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
    )
    assert (run.returncode, run.stdout) == (0, "all good\n"), run.stderr
    assert "client switching stacks" not in run.stderr


def test_a_program_that_ends_inside_a_task_ends(tmp_path: Path) -> None:
    source = tmp_path / "leave.cpp"
    source.write_text(
        "#include <manyhands/ult.hpp>\n#include <cstdlib>\n"
        "int main() {\n"
        "  auto scheduler = mh::ult::Scheduler::start();\n"
        "  (void)scheduler->run([] { std::exit(7); });\n"
        "}\n"
    )
    program = compiled(source, tmp_path / "leave")
    run = subprocess.run([program], capture_output=True, timeout=LIMIT_S)
    assert run.returncode == 7
    assert run.returncode != -signal.SIGABRT
