# SPDX-License-Identifier: BSD-3-Clause
"""The tables of `mh simulate`, beside the paper's numbers for the same problem and machine."""

from __future__ import annotations

from rich import box
from rich.table import Table

from manyhands.simulating import paper
from manyhands.simulating.lines import Line, best


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for column in columns:
        table.add_column(column, justify="right")
    return table


def iterations(lines: list[Line], problem: str, machine: str) -> Table:
    table = _table(
        "Iterations; steals are a rank's average",
        *("scheme", "cores", "iteration", "ideal s", "s", "efficiency", "of best", "attempts"),
        *("steals", "the paper"),
    )
    reference = best(lines)
    last = {(line["scheme"], line["cores"]): line["iteration"] for line in lines}
    for line in lines:
        is_last = line["iteration"] == last[line["scheme"], line["cores"]]
        table.add_row(
            line["scheme"],
            str(line["cores"]),
            str(line["iteration"]),
            f"{line['ideal_s']:.2f}",
            f"{line['end_s']:.2f}",
            f"{100 * line['efficiency']:.1f} %",
            f"{100 * line['efficiency'] / reference:.1f} %",
            f"{line['attempts']:.0f}",
            f"{line['steals']:.2f}",
            ", ".join(paper.retention(line, problem, machine, is_last)),
        )
    return table


def balancers(lines: list[Line], problem: str, machine: str) -> Table:
    table = _table(
        "Balancers, central / tree; the paper's in brackets",
        *("cores", "n", "m", "before", "ms", "cheaper by", "% over ideal", "moved"),
    )
    same = problem == "hf-be256" and machine == "hopper"
    for central, tree in zip(lines[::2], lines[1::2], strict=True):
        n, m, cores = central["period"], central["many"], central["cores"]
        seconds = paper.seconds(n, m, cores) if same else None
        over = paper.over_ideal(n, m, cores) if same else None
        table.add_row(
            str(cores),
            str(n),
            str(m),
            f"{central['before']:.2f}",
            f"{1e3 * central['seconds']:.1f} / {1e3 * tree['seconds']:.1f}"
            + (f"  ({seconds} s)" if seconds else ""),
            f"{central['seconds'] / tree['seconds']:.0f}",
            f"{100 * central['over_ideal']:.2f} / {100 * tree['over_ideal']:.2f}"
            + (f"  ({over})" if over else ""),
            f"{central['moved']} / {tree['moved']}",
        )
    return table
