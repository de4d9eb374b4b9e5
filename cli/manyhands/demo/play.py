# SPDX-License-Identifier: BSD-3-Clause
"""The demo from its first run to its verdict.

Every case begins with a trial run that determines the number of steps of a run. Then plain and
helped runs take turns, and in each round the other of the two is the first: neither gains from a
machine that warms up or cools down.
"""

from __future__ import annotations

import contextlib
import filecmp
import math
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from manyhands_bench.mpis import Placement
from manyhands_bench.rounds import in_turn
from rich.console import Console

from manyhands.demo import problem, show
from manyhands.demo.findings import Finding, add_up, sentence
from manyhands.demo.mpi import choose
from manyhands.demo.problem import CASES, MESSAGE_BYTES, Case, Problem
from manyhands.demo.runs import Result, RunError, Setup, compile_stencil, run

FEWEST_STEPS, MOST_STEPS = 20, 1000
TRIAL_STEPS = 6
WARMUP_STEPS = 2
BUDGET_S = 75.0  # for all cases together; a machine that is too busy gets fewer rounds
DUMP_LIMIT_BYTES = 1 << 28  # larger grids are compared by checksum alone
QUIET_LOAD = 0.5
CPU_TOPOLOGY = Path("/sys/devices/system/cpu")
TINY = ["--nx", "4", "--ny", "4", "--nz", "4", "--vars", "1", "--steps", "1"]


@dataclass(frozen=True)
class Wish:
    """The options of `mh demo`."""

    ranks: int | None
    mpi: str | None
    rounds: int
    seconds: float  # of the steps of a run
    library: Path | None  # None: plain against plain


def usable_cores() -> int:
    """The number of cores that this process may use; two hardware threads of a core count once."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = CPU_TOPOLOGY / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        try:
            cores.add(siblings.read_text())
        except OSError:
            cores.add(str(cpu))
    return len(cores)


def demonstrate(wish: Wish, source: Path) -> dict[str, Any]:
    """Runs the demo, prints the results, and returns a record of them for JSON."""
    started = time.monotonic()
    out = show.console()
    build = choose(wish.mpi)
    program = compile_stencil(build, source, source.parents[1] / "build" / "demo" / build.name)
    ranks = wish.ranks or max(2, usable_cores())
    grid = problem.choose(ranks)
    placement = Placement.CORES if ranks <= usable_cores() else Placement.FREE
    with tempfile.TemporaryDirectory(prefix="mh-demo-") as scratch:
        setup = Setup(build, placement, program, ranks, Path(scratch))
        library = str(wish.library) if wish.library else "none: both kinds of run are plain"
        show.opening(out, setup, grid, library)
        warn_of_load(out)
        play = Play(pinned_if_possible(setup, out), grid, wish)
        findings, same_bytes = play.all(out)
    conclude(out, findings, wish.library is None, same_bytes)
    out.print(f"The demo took {time.monotonic() - started:.0f} s.")
    return {
        "what": "mh demo",
        "format": 1,
        "mpi": build.name,
        "mpicc": str(build.mpicc),
        "ranks": ranks,
        "rounds": wish.rounds,
        "control": wish.library is None,
        "problem": asdict(grid),
        "identical": all(f.identical for f in findings) and same_bytes is not False,
        "compared_byte_by_byte": same_bytes,
        "cases": [f.as_json() for f in findings],
    }


def warn_of_load(out: Console) -> None:
    load = os.getloadavg()[0]
    if load > QUIET_LOAD:
        out.print(
            f"[yellow]load average is {load:.1f}: other programs run, so times will vary[/]\n"
        )


def pinned_if_possible(setup: Setup, out: Console) -> Setup:
    """The setup with pinned ranks, or with free ranks if the launcher cannot pin on this
    machine.
    """
    try:
        run(setup, TINY, None)
    except RunError:
        if setup.placement is Placement.FREE:
            raise
        setup = replace(setup, placement=Placement.FREE)
        run(setup, TINY, None)
        out.print("[yellow]ranks are not pinned: the launcher cannot bind them here[/]\n")
    return setup


@dataclass(frozen=True)
class Play:
    """All runs of the demo, in their order."""

    setup: Setup
    grid: Problem
    wish: Wish

    def all(self, out: Console) -> tuple[list[Finding], bool | None]:
        """The findings, and whether the whole final grids were equal (None: not compared)."""
        now = time.monotonic()
        with show.Steps(out, len(CASES) * (1 + 2 * self.wish.rounds)) as steps:
            findings = []
            for i, case in enumerate(CASES):
                findings.append(self.case(case, now + BUDGET_S * (i + 1) / len(CASES), steps))
            return findings, self.same_grid(CASES[0])

    def case(self, case: Case, deadline: float, steps: show.Steps) -> Finding:
        trial = self.run(case, TRIAL_STEPS, "trial", steps)
        a_step = trial.times["seconds"] / TRIAL_STEPS
        wanted = min(MOST_STEPS, self.wish.seconds / max(a_step, 1e-6))
        count = max(FEWEST_STEPS, math.ceil(wanted))
        plain, helped = [], []
        for i in range(self.wish.rounds):
            if i > 0 and time.monotonic() > deadline:
                break
            nth = f"round {i + 1} of {self.wish.rounds}"
            for arm, results in in_turn((("plain", plain), ("helped", helped)), i):
                results.append(self.run(case, count, f"{nth}, {arm}", steps, arm == "helped"))
        steps.skip(2 * (self.wish.rounds - len(plain)))
        return add_up(case, plain, helped)

    def run(
        self, case: Case, count: int, what: str, steps: show.Steps, helped: bool = False
    ) -> Result:
        arguments = [*self.grid.arguments(), *case.arguments]
        arguments += ["--steps", str(count + WARMUP_STEPS), "--warmup", str(WARMUP_STEPS)]
        arguments += ["--memcpy", str(max(1, MESSAGE_BYTES >> 20))]
        steps.begin(f"{case.name}: {what}")
        library = self.wish.library if helped else None
        total = count + WARMUP_STEPS
        result = run(
            self.setup, arguments, library, lambda done: steps.step(done, total), case.heap
        )
        steps.end()
        return result

    def same_grid(self, case: Case) -> bool | None:
        """Compares the whole final grids of a short plain and a short helped run, byte by byte.

        None: the grids are too large to be compared.
        """
        if self.grid.bytes_of_a_rank() * self.setup.ranks > DUMP_LIMIT_BYTES:
            return None
        arguments = [*self.grid.arguments(), *case.arguments, "--steps", str(TRIAL_STEPS)]
        with two_files(self.setup.scratch) as (plain, helped):
            run(self.setup, [*arguments, "--dump", str(plain)], None)
            run(self.setup, [*arguments, "--dump", str(helped)], self.wish.library)
            return filecmp.cmp(plain, helped, shallow=False)


@contextlib.contextmanager
def two_files(folder: Path) -> Iterator[tuple[Path, Path]]:
    files = folder / "plain.grid", folder / "helped.grid"
    try:
        yield files
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def conclude(out: Console, findings: list[Finding], control: bool, same_bytes: bool | None) -> None:
    for finding in findings:
        out.print(show.table(finding, ("plain", "plain again" if control else "helped")))
        if not control:
            out.print(show.action(finding.did))
        out.print(sentence(finding, control))
        out.print()
    out.print(show.limit(findings))
    equal = all(f.identical for f in findings) and same_bytes is not False
    how = "by a 64-bit hash of every variable on every rank after every run"
    if same_bytes is not None:
        how += ", and the whole grid byte by byte after one run of each kind"
    verdict = "[green]Results are identical[/]" if equal else "[bold red]Results DIFFER[/]"
    out.print(f"{verdict}, compared {how}.")
