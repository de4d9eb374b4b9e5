# SPDX-License-Identifier: BSD-3-Clause
"""Tests paths that could be mistaken for something else: options, assignments, names on PATH."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .conftest import BUILDS, Build, Mh
from .test_run import Compiled, script

NAMES = ["./-prog", "./--help", "./-n", "sub/-prog", "./a=b", "./a b", "./ldd"]
LAUNCHER = '#!/bin/sh\n[ "$1" = --version ] && echo hydra && exit\necho started "$@"\n'


# Pairs of an MPI build and the name of a program. The first build is tested with all names, each
# further build with two names.
NAMED = [
    pytest.param(build, name, id=f"{build.name}-{name}")
    for number, build in enumerate(BUILDS)
    for name in (NAMES if number == 0 else [NAMES[number], NAMES[(number + 3) % len(NAMES)]])
]


@pytest.mark.parametrize(("build", "name"), NAMED)
def test_a_program_of_any_name_gets_its_own_launcher(
    mh: Mh, library: Path, compiled: Compiled, tmp_path: Path, build: Build, name: str
) -> None:
    program = compiled(build)
    (tmp_path / "sub").mkdir()
    shutil.copy(program, tmp_path / name)
    plain = mh("run", "--dry-run", "-n", "2", program)
    ours = mh("run", "--dry-run", "-n", "2", name)
    assert ours.stderr == ""
    assert ours.stdout.split()[0] == plain.stdout.split()[0]
    result = mh("run", "-n", "2", name)
    assert (result.returncode, result.stdout.count("rank ")) == (0, 2), result.stderr
    assert "MPI" in mh("doctor", "--", name).stdout


@pytest.mark.parametrize("program", ["-prog", "a=b"])
def test_a_program_on_the_path_is_no_option_of_the_launcher(
    mh: Mh, library: Path, compiled: Compiled, build: Build, tmp_path: Path, program: str
) -> None:
    shutil.copy(compiled(build), tmp_path / program)
    for folder in (".", str(tmp_path)):
        path = f"{folder}:{Path(shutil.which('sh')).parent}:/usr/bin:/bin"
        result = mh("run", "-n", "2", "--", program, PATH=path)
        assert (result.returncode, result.stdout.count("rank ")) == (0, 2), result.stderr


@pytest.mark.parametrize("name", ["./-launcher", "./mpiexec", "./--version"])
def test_a_launcher_of_any_name(mh: Mh, library: Path, tmp_path: Path, name: str) -> None:
    script(tmp_path / name, LAUNCHER)
    result = mh("run", "--mpiexec", name, "-n", "2", "true")
    assert result.stdout.startswith("started -genv LD_PRELOAD ")


def test_an_interpreter_of_any_name(mh: Mh, library: Path, tmp_path: Path) -> None:
    """A program named like a program on the PATH is a different program."""
    wheels = [
        build for build in BUILDS if build.name == "openmpi5" and Path(build.launcher).exists()
    ]
    if not wheels:
        pytest.skip("openmpi5 is not installed")
    python = Path(wheels[0].launcher).with_name("python")
    script(tmp_path / "python3", f'#!/bin/sh\nexec {python} "$@"\n')
    line = mh("run", "--dry-run", "-n", "2", "./python3", "x.py").stdout
    assert Path(line.split()[0]) == Path(wheels[0].launcher).resolve()


def test_a_program_with_an_equals_sign_under_a_launcher_of_unknown_kind(
    mh: Mh, library: Path, tmp_path: Path
) -> None:
    script(tmp_path / "launch", '#!/bin/sh\n[ "$1" = --version ] && exit\nexec "$@"\n')
    script(tmp_path / "a=b", '#!/bin/sh\necho "started $LD_PRELOAD: $*"\n')
    result = mh("run", "--mpiexec", "./launch", "--", "./a=b", "c d", "e=f")
    heap = library.with_name("libmanyhands-heap.so")
    assert result.stdout == f"started {heap}:{library}: c d e=f\n"


@pytest.mark.parametrize("command", ["tune --dry-run", "simulate"])
@pytest.mark.parametrize("name", ["./-measures", "./true"])
def test_a_program_of_a_command_is_the_one_that_was_named(
    mh: Mh, library: Path, tmp_path: Path, command: str, name: str
) -> None:
    script(tmp_path / name, "#!/bin/sh\necho it >&2\nexit 1\n")
    result = mh(*command.split(), "--program", name)
    assert "it\n" in result.stderr
