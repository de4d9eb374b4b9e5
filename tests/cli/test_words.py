# SPDX-License-Identifier: BSD-3-Clause
"""Tests where a command line is split: after the launcher's options and before the program."""

from __future__ import annotations

import pytest
from manyhands.words import split


@pytest.mark.parametrize(
    ("line", "own", "launcher", "program"),
    [
        ("-n 4 ./app a b", "", "-n 4", "./app a b"),
        ("-np 4 ./app -n 7", "", "-np 4", "./app -n 7"),
        ("--mpiexec /x/mpiexec -n 2 ./app", "--mpiexec /x/mpiexec", "-n 2", "./app"),
        ("-n 2 --mpiexec=/x/mpiexec ./app", "--mpiexec=/x/mpiexec", "-n 2", "./app"),
        ("-n 2 ./app --mpiexec y", "", "-n 2", "./app --mpiexec y"),
        ("-n 2 -- -odd-name x", "", "-n 2", "-odd-name x"),
        ("-n 2 --bind-to core ./app", "", "-n 2 --bind-to core", "./app"),
        ("--bind-to=core ./app", "", "--bind-to=core", "./app"),
        ("--mca btl self,vader -n 2 ./app", "", "--mca btl self,vader -n 2", "./app"),
        ("-genv A b -env C d -n 1 ./app", "", "-genv A b -env C d -n 1", "./app"),
        ("-x A=b -n 1 ./app", "", "-x A=b -n 1", "./app"),
        ("--oversubscribe ./app", "", "--oversubscribe", "./app"),
        ("-hosts a,b -ppn 2 ./app", "", "-hosts a,b -ppn 2", "./app"),
        ("-host a ./app -host b", "", "-host a", "./app -host b"),
        ("-n4 --cpu-bind=cores ./app", "", "-n4 --cpu-bind=cores", "./app"),
        # --some-flag is in no table of launcher options. The word after it counts as the program if
        # it can be executed, else as the option's value.
        ("--some-flag sh -c true", "", "--some-flag", "sh -c true"),
        ("--some-key no-such-program sh -c true", "", "--some-key no-such-program", "sh -c true"),
        ("--some-flag -n 2 ./app", "", "--some-flag -n 2", "./app"),
        ("-n 1 ./a : -n 2 ./b", "", "-n 1", "./a : -n 2 ./b"),
        ("-localhost node1 -n 2 ./app", "", "-localhost node1 -n 2", "./app"),
        ("--xterm 0,1 -n 2 ./app", "", "--xterm 0,1 -n 2", "./app"),
        # -q has a value under srun, and none under Open MPI.
        ("-q high -n 2 ./app", "", "-q high -n 2", "./app"),
        ("-q -n 2 ./app", "", "-q -n 2", "./app"),
        ("-q sh -c true", "", "-q", "sh -c true"),
        # The first word without a dash is no program, and an executable program follows `--`.
        ("--two a b -n 2 -- sh -c true", "", "--two a b -n 2", "sh -c true"),
        ("--two a b --mpiexec m -- sh x", "--mpiexec m", "--two a b", "sh x"),
        ("-n 2 sh -- ls", "", "-n 2", "sh -- ls"),
        ("-n 2 ./app -- no-such-program", "", "-n 2", "./app -- no-such-program"),
        ("-wdir there -n 2 ./app -- sh", "", "-wdir there -n 2", "./app -- sh"),
        ("--help", "--help", "", ""),
        ("--dry-run -n 2 ./app --help", "--dry-run", "-n 2", "./app --help"),
        ("", "", "", ""),
    ],
)
def test_split(line: str, own: str, launcher: str, program: str) -> None:
    found = split(line.split())
    assert " ".join(found.own) == own
    assert " ".join(found.launcher) == launcher
    assert " ".join(found.program) == program
