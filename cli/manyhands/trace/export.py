# SPDX-License-Identifier: BSD-3-Clause
"""Writes a traced run for other programs: sums as JSON, events as CSV, and Chrome's trace format.

Chrome's format is the JSON object that Perfetto and chrome://tracing open. It shows each rank as a
process, with threads for the rank's calls, for the help that the rank gives, and for its messages.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from manyhands.trace import findings
from manyhands.trace.files import Event, RankFile, open_all
from manyhands.trace.run import Rank, Run

FORMAT = "manyhands-report-1"
COLUMNS = (
    "rank kind call detail begin_s extent_s transfer_s waiting_s bytes peer count cpu"
).split()
CALLS, HELP, MESSAGES = 0, 1, 2  # thread numbers in Chrome's format
THREADS = {CALLS: "MPI calls", HELP: "help given, loops, tasks", MESSAGES: "messages"}
THREAD_OF = {"call": CALLS, "brief_calls": CALLS, "sent": MESSAGES, "left": MESSAGES}
THREAD_OF |= {"copied": MESSAGES, "on_lent_core": MESSAGES}


def _rank(rank: Rank) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "node": rank.node,
        "host": rank.host,
        "complete": rank.complete,
        "elapsed_s": rank.elapsed_s,
        "mpi_s": rank.mpi_s,
        "transfer_s": rank.transfer_s,
        "waiting_s": rank.waiting_s,
        "helping_s": rank.helping_s,
        "events": rank.events,
        "lost_events": rank.lost,
        "cores": sorted(rank.cores),
        "totals": {kind: asdict(total) for kind, total in rank.totals.items()},
    }


def as_json(run: Run) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "complete": run.complete,
        "elapsed_s": run.elapsed_s,
        "lost_events": run.lost,
        "efficiency": asdict(run.efficiency(with_help=False)),
        "efficiency_with_help": asdict(run.efficiency(with_help=True)),
        "ranks": [_rank(rank) for rank in run.ranks],
        "calls": [{**asdict(row), "seconds": row.seconds} for row in run.calls],
        "helped": [
            {"helper": helper, "owner": owner, "bytes": size}
            for (helper, owner), size in sorted(run.helped_bytes.items())
        ],
        "lent": [
            {"helper": helper, "owner": owner, "seconds": seconds}
            for (helper, owner), seconds in sorted(run.lent_s.items())
        ],
        "late": [
            {"rank": late, "seconds": seconds} for late, seconds in sorted(run.late_s.items())
        ],
        "messages_by_path": _by(run.paths, "path"),
        "messages_left": _by(run.left, "reason"),
        "summary": findings.paragraph(run),
        "advice": findings.advice(run),
    }


def _by(table: dict[str, tuple[int, int]], name: str) -> list[dict[str, Any]]:
    return [
        {name: key, "messages": messages, "bytes": size}
        for key, (messages, size) in sorted(table.items())
    ]


def write_csv(folder: Path, out: TextIO) -> None:
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    for file in open_all(folder):
        for event in file.events():
            times = (event.begin, event.extent, event.transfer, event.waiting)
            rows.writerow(
                [file.rank, event.kind, event.call, event.detail]
                + [f"{value:.9f}" for value in times]
                + [event.bytes, "" if event.peer is None else event.peer, event.count, event.cpu]
            )


def _names(file: RankFile) -> Iterator[dict[str, Any]]:
    yield {
        "ph": "M",
        "name": "process_name",
        "pid": file.rank,
        "args": {"name": f"rank {file.rank} ({file.host})"},
    }
    for thread, name in THREADS.items():
        yield {
            "ph": "M",
            "name": "thread_name",
            "pid": file.rank,
            "tid": thread,
            "args": {"name": name},
        }


def _chrome(rank: int, event: Event) -> dict[str, Any]:
    arguments = {
        "bytes": event.bytes,
        "peer": event.peer,
        "count": event.count,
        "core": event.cpu,
        "detail": event.detail,
        "waiting_us": round(event.waiting * 1e6, 3),
    }
    return {
        "ph": "X",
        "name": event.call or event.kind.replace("_", " "),
        "cat": event.kind,
        "pid": rank,
        "tid": THREAD_OF.get(event.kind, HELP),
        "ts": round(event.begin * 1e6, 3),
        "dur": round(event.extent * 1e6, 3),
        "args": {key: value for key, value in arguments.items() if value not in (None, "", 0)},
    }


def write_chrome(folder: Path, out: TextIO) -> None:
    out.write('{"displayTimeUnit": "ms", "traceEvents": [')
    separator = "\n"
    for file in open_all(folder):
        rows = [*_names(file)]
        for row in rows:
            out.write(separator + json.dumps(row))
            separator = ",\n"
        for event in file.events():
            out.write(separator + json.dumps(_chrome(file.rank, event)))
    out.write("\n]}\n")
