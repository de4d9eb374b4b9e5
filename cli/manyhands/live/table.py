# SPDX-License-Identifier: BSD-3-Clause
"""The table of ranks, in 80 columns: texts for one interval of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from manyhands.live.jobs import Job
from manyhands.live.reader import Interval
from manyhands.units import size_text, time_text

COLUMNS = 80
Rank = dict[str, Any]

STYLES = {
    "computes": "green",
    "in MPI": "blue",
    "waits": "yellow",
    "copies": "cyan",
    "lends": "cyan",
    "gone": "red",
}
# Heading and width (in characters) of each column of the table that `mh top` shows.
LAYOUT = (
    ("rank", 5),
    ("pid", 7),
    ("state", 21),
    ("wait", 4),
    ("help", 4),
    ("msg/s", 5),
    ("B/s", 5),
    ("copied", 6),
    ("given", 5),
    ("got", 4),
    ("coll", 4),
)


def short(value: float) -> str:
    """A number in at most four characters, such as 12, 3.4k, 120M."""
    if value < 0.05:
        return "-"
    if value < 9.95:
        return f"{value:.1f}".removesuffix(".0")
    for suffix in ("", "k", "M", "G", "T"):
        if value < 999.5:
            return f"{value:.0f}{suffix}" if value >= 9.95 or not suffix else f"{value:.1f}{suffix}"
        value /= 1000
    return f"{value:.0f}P"


def share(value: float) -> str:
    return f"{round(100 * value)}%" if value >= 0.005 else "-"


def some(ranks: Sequence[int], space: int) -> str:
    """The ranks that fit into `space` characters, and the number of ranks left out."""
    for count in range(len(ranks), -1, -1):
        text = ", ".join(map(str, ranks[:count]))
        if count < len(ranks):
            text = f"{text} +{len(ranks) - count}".strip()
        if len(text) <= space:
            return text
    return ""


def _joined(verb: str, ranks: Sequence[int]) -> str:
    return f"{verb} {some(ranks, dict(LAYOUT)['state'] - len(verb) - 1)}"


def state_text(rank: Rank) -> str:
    state: str = rank["state"]
    if state == "lends":
        return _joined("lends to", rank["helps"])
    if state == "copies" and not rank["helps"]:
        return "copies own messages"
    if state == "copies":
        return _joined("copies for", rank["helps"])
    if state == "waits":
        return _joined("waits for", rank["late"]) if rank["late"] else state
    if rank["helped_by"]:
        return _joined("helped by", rank["helped_by"])
    return state


def _row(rank: Rank) -> list[Text]:
    rates = rank["per_s"]
    cells = [str(rank["rank"]), str(rank["pid"]), state_text(rank)]
    cells += [share(rank["waiting"]), share(rank["helping"])]
    names = ("messages", "bytes", "copied_bytes", "units_given", "units_received", "collectives")
    cells += [short(rates[name]) for name in names]
    row = [Text(cell) for cell in cells]
    row[2].stylize(STYLES.get(rank["state"], ""))
    return row


def ranks_table(ranks: Sequence[Rank]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for heading, width in LAYOUT:
        justify = "left" if heading == "state" else "right"
        table.add_column(heading, width=width, justify=justify, no_wrap=True, overflow="crop")
    for rank in ranks:
        table.add_row(*_row(rank))
    return table


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def header(job: Job, interval: Interval) -> Text:
    count = len(interval["ranks"])
    facts = [f"{count} rank{'s' * (count != 1)} on this node", time_text(interval["age_s"])]
    if job.launcher is not None:
        facts.insert(0, f"{job.launcher_name} {job.launcher}")
    if job.batch_job is not None:
        facts.insert(0, f"job {job.batch_job}")
    useful, helped = interval["efficiency"], interval["efficiency_with_help"]
    heap = interval["heap_bytes"]
    numbers = f"efficiency so far: useful {share(useful)}, with helping {share(helped)}"
    numbers += f"   heap {size_text(heap)}" if heap is not None else "   no shared heap"
    text = Text().append(_cut(job.program, COLUMNS), "bold")
    return text.append("\n" + _cut(", ".join(facts), COLUMNS) + "\n" + numbers + "\n")


def whole(job: Job, interval: Interval) -> Group:
    return Group(header(job, interval), ranks_table(interval["ranks"]))
