# SPDX-License-Identifier: BSD-3-Clause
"""The output of the demo: the plan, the progress, and the table."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from manyhands.demo.findings import Did, Finding, Ratio, share
from manyhands.demo.problem import Problem
from manyhands.demo.runs import Setup

COLUMNS = 100
ROWS = [
    ("time", "seconds"),
    ("  computing", "compute_s"),
    ("  packing", "pack_s"),
    ("  communication", "mpi_s"),
    ("    waiting, at least", "wait_s"),
]


def console() -> Console:
    """A console of 100 columns, which the table needs, on any terminal and in files."""
    return Console(width=COLUMNS, highlight=False)


class Steps:
    """The progress of the demo: on a terminal a bar with the steps of the current run, otherwise a
    line for each run.
    """

    def __init__(self, out: Console, runs: int) -> None:
        self.out = out
        self.bar = Progress(
            TextColumn("{task.description:38}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[steps]:>14}"),
            TimeRemainingColumn(),
            console=out,
            transient=True,
            auto_refresh=False,  # a timer that draws ten times a second takes a core from the ranks
        )
        self.task: TaskID = self.bar.add_task("", total=float(runs), steps="")
        self.done = 0

    def __enter__(self) -> Steps:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def begin(self, what: str) -> None:
        if self.out.is_terminal:
            self.bar.update(self.task, description=what, steps="starting", refresh=True)
        else:
            self.out.print(what)

    def step(self, done: int, steps: int) -> None:
        at = self.done + done / steps
        self.bar.update(self.task, completed=at, steps=f"step {done}/{steps}")
        if self.out.is_terminal:
            self.bar.refresh()

    def end(self) -> None:
        self.skip(1)

    def skip(self, runs: int) -> None:
        self.done += runs
        self.bar.update(self.task, completed=float(self.done))


def size(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def opening(out: Console, setup: Setup, problem: Problem, library: str) -> None:
    nx, ny, nz = problem.cells
    out.print(
        f"[bold]3-D 7-point stencil[/], {setup.ranks} ranks of {nx} x {ny} x {nz} cells with "
        f"{problem.variables} variables ({size(problem.bytes_of_a_rank())} a rank)"
    )
    out.print(f"MPI      {setup.build.name}: {setup.build.mpiexec}", soft_wrap=True)
    out.print(f"library  {library}", soft_wrap=True)
    out.print()


def _range(ratio: Ratio) -> str:
    return f"{ratio.median:.2f}x ({ratio.low:.2f}-{ratio.high:.2f})"


def _speed(seconds: float, finding: Finding) -> str:
    """Bytes that all ranks exchanged in a run, per second that a rank was inside MPI on average."""
    if seconds <= 0:
        return "-"
    return f"{finding.bytes_per_step * finding.steps / seconds / 1e9:.1f} GB/s"


def table(finding: Finding, arms: tuple[str, str]) -> Table:
    title = f"{finding.case.name}: {finding.case.title}"
    counts = f"{finding.steps} steps, messages up to {size(finding.message_bytes)}"
    result = Table(title=f"[bold]{title}[/] ({counts})", title_justify="left", title_style="")
    result.add_column("", min_width=26)
    for name in arms:
        result.add_column(name, justify="right", min_width=11)
    result.add_column("share of plain", justify="right")
    result.add_column("speedup (95 % range)", min_width=18, justify="right")
    for label, part in ROWS:
        speedup = {"seconds": finding.speedup, "mpi_s": finding.communication}.get(part)
        result.add_row(
            label,
            f"{finding.plain[part]:.3f} s",
            f"{finding.helped[part]:.3f} s",
            "" if part == "seconds" else f"{100 * share(finding, part):.1f} %",
            _range(speedup) if speedup else "",
        )
    result.add_row(
        "  halo data per s of MPI",
        _speed(finding.plain["mpi_s"], finding),
        _speed(finding.helped["mpi_s"], finding),
    )
    return result


def action(did: Did | None) -> str:
    if did is None:
        return "Manyhands: no summary"
    text = f"Manyhands: {did.messages} messages by rendezvous ({size(did.bytes)})"
    if did.messages:
        text += (
            f"; copied {size(did.by_owners)} by senders and receivers, {size(did.by_others)} by "
            f"other waiting ranks in {did.help_s:.3f} s"
        )
    return text + (f"; {did.resends} sent again by the MPI library" if did.resends else "")


def limit(findings: list[Finding]) -> str:
    one = max(f.one_gb_per_s for f in findings)
    together = max(f.together_gb_per_s for f in findings)
    return (
        f"Limit of the memory, measured in the same runs with buffers as large as a message: "
        f"memcpy by one rank {one:.1f} GB/s, "
        f"by all {findings[0].ranks} together {together:.1f} GB/s."
    )
