# SPDX-License-Identifier: BSD-3-Clause
"""The tables of `mh profile`, for a terminal of 100 columns."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from manyhands.profiling.advice import advice, percent, size_text, taken_over
from manyhands.profiling.record import Profile, Row

COLUMNS = 100
MOST_RANKS = 16  # rows of the table of ranks


def console() -> Console:
    return Console(width=COLUMNS, highlight=False)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    return table


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 else "-"


def _totals(profile: Profile) -> Table:
    table = _table("time of a rank", "s", "of the run", "")
    whole = profile.elapsed_s
    for name, value, meaning in (
        ("from MPI_Init to MPI_Finalize", whole, ""),
        ("in MPI", profile.mpi_s, ""),
        ("  transfer", profile.transfer_s, "all ranks of the call are in MPI"),
        ("  waiting", profile.waiting_s, "a rank of the call is not in MPI yet"),
    ):
        table.add_row(name, _seconds(value), percent(value, whole), meaning)
    return table


def _data(row: Row) -> str:
    size = "more" if row.bytes_at_most is None else f"to {size_text(row.bytes_at_most)}"
    return size if row.contiguous else f"{size}, gaps"


def _calls(profile: Profile, most: int) -> Table:
    count = len(profile.ranks)
    table = _table("call, per rank", "data", "calls", "s", "of MPI", "transfer s", "waiting s")
    for row in profile.rows[:most]:
        table.add_row(
            row.call,
            _data(row),
            f"{row.calls / count:.0f}",
            _seconds(row.seconds / count),
            percent(row.seconds / count, profile.mpi_s),
            _seconds(row.transfer_s / count),
            _seconds(row.waiting_s / count),
        )
    return table


def _ranks(profile: Profile) -> Table:
    table = _table("rank", "node", "computing s", "in MPI s", "transfer s", "waiting s", "late s")
    ranks = sorted(profile.ranks, key=lambda rank: -profile.late_s.get(rank.rank, 0))
    for rank in sorted(ranks[:MOST_RANKS], key=lambda rank: rank.rank):
        table.add_row(
            str(rank.rank),
            str(rank.node),
            _seconds(rank.elapsed_s - rank.mpi_s),
            _seconds(rank.mpi_s),
            _seconds(rank.transfer_s),
            _seconds(rank.waiting_s),
            _seconds(profile.late_s.get(rank.rank, 0)),
        )
    return table


def show(profile: Profile, out: Console, most: int) -> None:
    count = len(profile.ranks)
    nodes = len({rank.node for rank in profile.ranks})
    out.print(
        f"[bold]{count} rank{'s' * (count != 1)} on {nodes} node{'s' * (nodes != 1)}, "
        f"{profile.elapsed_s:.2f} s, {percent(profile.mpi_s, profile.elapsed_s)} in MPI[/bold]"
        f" (MPI_Init {profile.init_s:.3f} s)\n"
    )
    out.print(_totals(profile))
    out.print(_calls(profile, most))
    if len(profile.rows) > most:
        out.print(f"{len(profile.rows) - most} more rows: mh profile --top {len(profile.rows)}\n")
    out.print(_ranks(profile))
    if count > MOST_RANKS:
        out.print(f"The table shows the {MOST_RANKS} ranks with the largest late times.\n")
    out.print(f"Manyhands took over: {taken_over(profile)}.")
    for text in advice(profile):
        out.print(text)
