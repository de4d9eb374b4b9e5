# SPDX-License-Identifier: BSD-3-Clause
"""The report of one or two traced runs: a single HTML page that needs no network.

template.html has the style and the script of the timeline. The tables have all numbers and need no
script.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from manyhands.profiling.advice import percent
from manyhands.trace import findings
from manyhands.trace.cores import CoreLane
from manyhands.trace.run import Rank, Run
from manyhands.trace.timeline import Lane, Segment
from manyhands.units import size_text

MOST_CALLS = 20
MOST_MATRIX = 64  # ranks; a larger matrix becomes a list of pairs
MOST_PAIRS = 40


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], style: str = "") -> str:
    heads = "".join(f"<th scope=col>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<div class=wide><table class='{style}'><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 else "–"


def _efficiencies(run: Run) -> str:
    rows = []
    for name, with_help in (("useful work", False), ("useful work and help", True)):
        each = run.efficiency(with_help)
        numbers = (each.parallel, each.load_balance, each.communication)
        rows.append([name, *(f"{100 * value:.1f} %" for value in numbers)])
    return (
        _table(["counted as work", "parallel efficiency", "load balance", "communication"], rows)
        + "<p class=note>POP: parallel efficiency = load balance × communication efficiency. "
        "Useful work is the time outside MPI; help is work for other ranks inside MPI.</p>"
    )


def _calls(run: Run) -> str:
    count = len(run.ranks)
    rows = [
        [
            row.call or "several",
            f"{row.calls / count:.0f}",
            size_text(row.bytes / count),
            _seconds(row.seconds / count),
            _seconds(row.transfer_s / count),
            _seconds(row.waiting_s / count),
            percent(row.waiting_s / count, run.elapsed_s),
        ]
        for row in run.calls[:MOST_CALLS]
    ]
    head = ["call, per rank", "calls", "data", "s in MPI", "transfer s", "waiting s", "of the run"]
    return _table(head, rows)


def _ranks(run: Run) -> str:
    rows = [
        [
            str(rank.rank),
            rank.host,
            _seconds(rank.useful_s),
            _seconds(rank.transfer_s),
            _seconds(rank.waiting_s),
            _seconds(rank.helping_s),
            _seconds(run.late_s.get(rank.rank, 0.0)),
        ]
        for rank in run.ranks
    ]
    head = ["rank", "host", "computing s", "transfer s", "waiting s", "helping s", "late s"]
    return _table(head, rows)


def _pairs(run: Run) -> dict[tuple[int, int], tuple[int, float]]:
    """Bytes copied and seconds of lent cores for each pair of helping rank and owner."""
    keys = set(run.helped_bytes) | set(run.lent_s)
    return {key: (run.helped_bytes.get(key, 0), run.lent_s.get(key, 0.0)) for key in sorted(keys)}


def _pair_text(size: int, seconds: float) -> str:
    parts = [size_text(size)] if size else []
    if seconds:
        parts.append(f"{seconds:.3g} s")
    return " + ".join(parts)


def _matrix(run: Run) -> str:
    pairs = _pairs(run)
    if not pairs:
        return "<p>No rank helped another rank.</p>"
    if len(run.ranks) > MOST_MATRIX:
        largest = sorted(pairs.items(), key=lambda item: item[1], reverse=True)[:MOST_PAIRS]
        return _table(
            ["helper", "owner", "help"],
            ([str(a), str(b), _pair_text(*value)] for (a, b), value in largest),
        )
    numbers = [rank.rank for rank in run.ranks]
    rows = (
        [str(a), *(_pair_text(*pairs[a, b]) if (a, b) in pairs else "" for b in numbers)]
        for a in numbers
    )
    head = ["helper \\ owner", *map(str, numbers)]
    note = "<p class=note>Bytes copied in chunks, and seconds during which a core was lent.</p>"
    return _table(head, rows, "matrix") + note


def _messages(run: Run) -> str:
    sent = run.total("sent")
    rows = [["by rendezvous", str(sent.events), size_text(sent.bytes)]]
    names = {
        "mapped": "… copied between mapped buffers",
        "kernel": "… copied by the kernel",
        "cells": "… through cells of the segment",
        "pushed": "… pushed by the sender",
        "library": "… sent again by the MPI library",
    }
    rows += [
        [names[path], str(messages), size_text(size)]
        for path, (messages, size) in sorted(run.paths.items())
    ]
    rows += [[f"collectives {name}", str(count), ""] for name, count in findings.collectives(run)]
    return _table(["messages and collectives", "count", "data"], rows)


def _refusals(run: Run) -> str:
    rows = findings.refusals(run)
    if not rows:
        return "<p>No work was left to the MPI library.</p>"
    return _table(["left to the MPI library, or not shared", "because"], rows, "words")


def _list(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


SECTIONS: tuple[tuple[str, Callable[[Run], str]], ...] = (
    ("Efficiency", _efficiencies),
    ("Waiting by call", _calls),
    ("Ranks", _ranks),
    ("Who helped whom", _matrix),
    ("Messages and collectives", _messages),
    ("Where help was refused", _refusals),
)


def _compared(runs: list[Run]) -> str:
    before, after = runs
    measures: tuple[tuple[str, Callable[[Run], float]], ...] = (
        ("wall time, s", lambda run: run.elapsed_s),
        ("computing, s per rank", lambda run: run.mean_s("useful_s")),
        ("transfer, s per rank", lambda run: run.mean_s("transfer_s")),
        ("waiting, s per rank", lambda run: run.mean_s("waiting_s")),
        ("helping, s per rank", lambda run: run.mean_s("helping_s")),
        ("parallel efficiency", lambda run: run.efficiency(False).parallel),
        ("… with help", lambda run: run.efficiency(True).parallel),
    )
    rows = []
    for name, measure in measures:
        old, new = measure(before), measure(after)
        rows.append([name, f"{old:.3f}", f"{new:.3f}", f"{new / old:.2f}" if old else "–"])
    return "<h2>Before and after</h2>" + _table(["", "before", "after", "after / before"], rows)


def _segment(each: Segment, unit: float, names: dict[str, int]) -> list[int]:
    numbers = (each.begin, each.end - each.begin, each.transfer, each.waiting)
    name = names.setdefault(each.name, len(names))
    peer = -1 if each.peer is None else each.peer
    rank = -1 if each.rank is None else each.rank
    times = (round(number / unit) for number in numbers)
    return [*times, name, peer, each.count, each.bytes, rank]


def _lanes(lane: Lane, unit: float, names: dict[str, int]) -> dict[str, Any]:
    lanes = {"calls": lane.calls, "help": lane.help, "loops": lane.loops}
    return {key: [_segment(each, unit, names) for each in of] for key, of in lanes.items()}


def _of_rank(rank: Rank, unit: float, names: dict[str, int]) -> dict[str, Any]:
    present = [0, round(rank.elapsed_s / unit), rank.rank]
    name = f"rank {rank.rank}"
    return {"name": name, "present": [present], **_lanes(rank.lane, unit, names)}


def _of_core(core: CoreLane, unit: float, names: dict[str, int]) -> dict[str, Any]:
    def span(each: Segment) -> list[int]:
        rank = -1 if each.rank is None else each.rank
        return [round(each.begin / unit), round((each.end - each.begin) / unit), rank]

    present = [span(each) for each in core.present]
    name, title = f"core {core.cpu}", f"core {core.cpu} of {core.host}"
    return {"name": name, "title": title, "present": present, **_lanes(core, unit, names)}


def _data(runs: list[Run]) -> str:
    longest = max(run.elapsed_s for run in runs)
    unit = 1e-6 if longest > 10 else 1e-7
    names: dict[str, int] = {}
    rows = [
        {
            "ranks": [_of_rank(rank, unit, names) for rank in run.ranks],
            "cores": [_of_core(core, unit, names) for core in run.cores],
        }
        for run in runs
    ]
    data = {"unit": unit, "length": round(longest / unit), "names": list(names), "runs": rows}
    return json.dumps(data, separators=(",", ":")).replace("</", "<\\/")


def _choice(index: int) -> str:
    """The radio buttons that switch between the timelines of the ranks and of the cores."""
    options = "".join(
        f"<label><input type=radio name=rows-{index} value={rows} {checked}> by {label}</label>"
        for rows, label, checked in (("ranks", "rank", "checked"), ("cores", "core", ""))
    )
    return f"<p class=choice data-run={index}>{options}</p>"


def _one(run: Run, index: int, heading: str) -> str:
    parts = [f"<section><h2>{escape(heading)}</h2>"] if heading else ["<section>"]
    parts.append(f"<p class=lead>{escape(findings.paragraph(run))}</p>")
    parts.append("<h3>What can help</h3>" + _list(findings.advice(run)))
    parts.append("<h3>Timeline</h3>" + (_choice(index) if run.cores else ""))
    parts.append(
        f"<canvas class=timeline data-run={index} tabindex=0 "
        "aria-label='Timeline; the tables below have the numbers'></canvas>"
    )
    parts += [f"<h3>{title}</h3>{render(run)}" for title, render in SECTIONS]
    return "".join(parts) + "</section>"


def html(runs: list[Run]) -> str:
    """The page of a run, or of two runs under the headings Before and After."""
    template = Template(files("manyhands.trace").joinpath("template.html").read_text())
    headings = ["Before", "After"] if len(runs) == 2 else [""]
    named = [
        f"{heading}: {run.folder}" if heading else ""
        for heading, run in zip(headings, runs, strict=True)
    ]
    sections = "".join(
        _one(run, index, heading)
        for index, (run, heading) in enumerate(zip(runs, named, strict=True))
    )
    return template.substitute(
        title=escape(f"Manyhands report: {', '.join(str(run.folder) for run in runs)}"),
        compared=_compared(runs) if len(runs) == 2 else "",
        sections=sections,
        data=_data(runs),
    )
