# SPDX-License-Identifier: BSD-3-Clause
"""Runs each program of this directory under every MPI build, plain and helped.

A program tests one behaviour. Its head has a line for each way to run it:

    // run: ranks N [fails] [helped] [heap] [nocma] [not BUILDS] [says WORDS] [KEY=VALUE ...]

`fails` expects a non-zero exit status and no PASS. `helped` omits the plain run. `heap` has large
allocations in memory that the ranks share, in helped runs only. `nocma` keeps the MPI library
itself from using process_vm_readv. `not a,b` omits MPI builds that lack the tested feature.
`says "text"` expects this text on standard error of a helped run, where otherwise our library must
print no line.

`KEY=VALUE` is set for the ranks. MH_ keys are set in helped runs, and such ways run only under
Debian's libraries, whose launchers are quick. A way with OMPI_ keys is for Open MPI.

The launchers of the libraries from PyPI take up to a second. There only the first way without MH_
keys is a quick test; the other ways are slow tests.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, Run, compiled, run, with_heap
from harness.selection import NO_BUILD, wanted_arms, wanted_builds
from manyhands_bench.mpis import WITHOUT_CMA, MpiBuild

HERE = Path(__file__).parent
LIMIT_S = 60


@dataclass(frozen=True)
class Way:
    program: str
    ranks: int
    fails: bool = False
    helped_only: bool = False
    says: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    cma_of_the_mpi: bool = True
    left_out: tuple[str, ...] = ()  # MPI builds
    heap: bool = False
    first: bool = False  # the first way of its program that sets no MH_ key

    @property
    def sets_ours(self) -> bool:
        return any(key.startswith("MH_") for key in self.env)

    @property
    def name(self) -> str:
        settings = [f"{key}={value}" for key, value in self.env.items()]
        return " ".join([self.program, f"{self.ranks}", *["heap"] * self.heap, *settings])


def read_way(program: str, text: str) -> Way:
    words = shlex.split(text)
    ranks, says, env, flags, left_out = 0, None, {}, set(), ()
    while words:
        word = words.pop(0)
        if word == "ranks":
            ranks = int(words.pop(0))
        elif word == "says":
            says = words.pop(0)
        elif word == "not":
            left_out = tuple(words.pop(0).split(","))
        elif "=" in word:
            key, _, value = word.partition("=")
            env[key] = value
        elif word in ("fails", "helped", "heap", "nocma"):
            flags.add(word)
        else:
            raise ValueError(f"{program}: '{word}' in its run line")
    cma = "nocma" not in flags
    helped = bool(flags & {"helped", "heap"})
    return Way(program, ranks, "fails" in flags, helped, says, env, cma, left_out, "heap" in flags)


def read_ways() -> list[Way]:
    ways = []
    for source in sorted(HERE.glob("*.c")):
        text = source.read_text()
        lines = re.findall(r"^// run: (.*)$", text, re.MULTILINE)
        assert lines, f"{source.name} does not say how to run it"
        assert len(lines) == text.count(" run: "), f"{source.name}: a way to run it has no own line"
        of_program = [read_way(source.stem, line) for line in lines if not line.startswith("by ")]
        first = next((way for way in of_program if not way.sets_ours), None)
        ways += [replace(way, first=way is first) for way in of_program]
    return ways


WAYS = read_ways()


def check_what_was_said(way: Way, done: Run) -> None:
    said = [line for line in done.err.splitlines() if "manyhands: " in line]
    if way.says is None:
        assert not said, done.told()
    else:
        assert sum(way.says in line for line in said) == 1, done.told()


def left_running_by_launcher(done: Run) -> bool:
    """Returns whether MPICH 5's launcher did not end the other ranks of an aborted job.

    The launcher fails in about 1 of 300 runs, also plain.
    """
    return "Abort(" in done.err and "is stuck" in done.err


def has_a_meaning(mpi: str, arm: str, way: Way) -> bool:
    if mpi in way.left_out or (way.helped_only and arm != "helped"):
        return False
    if any(key.startswith("OMPI_") for key in way.env) and not mpi.startswith("openmpi"):
        return False
    return mpi in QUICK or not way.sets_ours


def marks_of(mpi: str, way: Way) -> list[pytest.MarkDecorator]:
    return [] if mpi in QUICK or way.first else [pytest.mark.slow]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    cases = [
        pytest.param(mpi, arm, way, id=f"{mpi}-{arm}-{way.name}", marks=marks_of(mpi, way))
        for mpi in wanted_builds(metafunc.config)
        for arm in wanted_arms(metafunc.config)
        for way in WAYS
        if has_a_meaning(mpi, arm, way)
    ]
    nothing = [(NO_BUILD, "plain", WAYS[0])]
    metafunc.parametrize(("mpi", "arm", "way"), cases or nothing, indirect=("mpi", "arm"))


def test_program(mpi: MpiBuild, arm: Arm, way: Way) -> None:
    if way.heap:
        arm = with_heap(arm)
    program = compiled(mpi, way.program, [HERE / f"{way.program}.c"])
    # By default exchanges of messages below 8 MB are eager (test_exchanges.py tests this). These
    # settings make them rendezvous.
    env = {
        "MH_THRESHOLD": "64K",
        "MH_EXCHANGE_THRESHOLD": "64K",
        "MH_HELP_THRESHOLD": "64K",
        "MH_MAPPED_HELP_THRESHOLD": "16K",
        **way.env,
    }
    if not way.cma_of_the_mpi:
        env |= WITHOUT_CMA
    done = run(mpi, arm, way.ranks, [str(program)], env, LIMIT_S)
    if way.fails and left_running_by_launcher(done):
        done = run(mpi, arm, way.ranks, [str(program)], env, LIMIT_S)
    if done.skipped():
        pytest.skip(done.skipped())
    if way.fails:
        assert done.code != 0, done.told()
        assert "PASS" not in done.out, done.told()
        assert "stuck" not in done.err, done.told()
        done.expect_clean()
        return
    done.expect("PASS")
    assert done.out.splitlines() == ["PASS"], f"more on standard output\n{done.told()}"
    if arm.helped:
        check_what_was_said(way, done)
