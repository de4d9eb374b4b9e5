# SPDX-License-Identifier: BSD-3-Clause
"""Tables and the picture of emulated results. A cell of a table has the speedup of a message over
one core's copy by the kernel, and the speed as a percentage of the model's optimum.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from manyhands_bench import emulated_results, plot
from manyhands_bench.emulated_cases import TITLES
from manyhands_bench.emulated_results import Result
from manyhands_bench.tables import factor_text, plain_table, size_text

ROWS_BY_LABEL = ("strategies", "saturate", "chunks", "loops")


def report(console: Console, stored: dict[str, Any]) -> None:
    """Prints everything that a report of `mh bench --emulate` holds."""
    model = stored["model"]
    console.print(f"emulated {model['name']}: {model['about']}, {stored['date']}")
    console.print(
        f"times as fast as one core's copy by the kernel, and per cent of the model's optimum; "
        f"emulated on {stored['machine']['cores']} cores with {stored['mpi']}"
    )
    results = emulated_results.firsts(stored["records"])
    for case in dict.fromkeys(one["case"] for one in results):
        of_case = [one for one in results if one["case"] == case]
        for table in _tables(case, of_case):
            console.print()
            console.print(table)
    console.print(_doubt_text(stored["records"]), soft_wrap=True)
    for error in stored["errors"]:
        console.print(error, style="red", markup=False)


def _tables(case: str, results: list[Result]) -> list[Table]:
    title = f"emulated: {TITLES.get(case, case)}"
    if case in ROWS_BY_LABEL:
        return [_by_label(title, results)]
    labels = dict.fromkeys(one["label"] for one in results)
    return [
        _by_size(f"{title}: {label}", [one for one in results if one["label"] == label])
        for label in labels
    ]


def _cell(result: Result) -> str:
    time = emulated_results.time_of(result)
    share = 100 * result["optimum_ns"] / time
    return f"{factor_text(result['alone_ns'] / time)}, {share:.0f}%"


def _by_size(title: str, results: list[Result]) -> Table:
    """A row for each size, a column for each number of helpers."""
    helpers = sorted({one["helpers"] for one in results})
    cells = {(one["bytes"], one["helpers"]): _cell(one) for one in results}
    table = plain_table(title, ["", *(f"{count} helpers" for count in helpers)])
    for size in sorted({one["bytes"] for one in results}):
        table.add_row(size_text(size), *(cells.get((size, count), "") for count in helpers))
    return table


def _by_label(title: str, results: list[Result]) -> Table:
    """A row for each label; a column for each size or, if there is one size only, for each number
    of helpers.
    """
    sizes = sorted({one["bytes"] for one in results})
    key, names = "bytes", {size: size_text(size) for size in sizes}
    if len(sizes) == 1:
        counts = sorted({one["helpers"] for one in results})
        key, names = "helpers", {count: f"{count} helpers" for count in counts}
    cells = {(one["label"], one[key]): _cell(one) for one in results}
    table = plain_table(title, ["", *names.values()])
    for label in dict.fromkeys(one["label"] for one in results):
        table.add_row(label, *(cells.get((label, name), "") for name in names))
    return table


def _doubt_text(results: list[Result]) -> str:
    found, compared = emulated_results.doubts(results)
    if not compared:
        return "no number was measured at twice the dilation"
    text = f"at twice the dilation {compared - len(found)} of {compared} numbers agree within 5 %"
    worst = [
        f"{one.result['label']}, {one.result['helpers']} helpers, "
        f"{size_text(one.result['bytes'])} {one.change:+.0%}"
        for one in sorted(found, key=lambda one: -abs(one.change))[:6]
    ]
    return text + ("; others: " + "; ".join(worst) if worst else "")


def draw(file: Path, stored: dict[str, Any]) -> None:
    """Draws the speedup over the number of helpers: a line for each size of the first label."""
    results = [
        r for r in emulated_results.firsts(stored["records"]) if r["case"] not in ROWS_BY_LABEL
    ]
    if not results:
        return
    label = results[0]["label"]
    lines: dict[str, list[tuple[int, float]]] = {}
    for one in (r for r in results if r["label"] == label and r["case"] == results[0]["case"]):
        factor = one["alone_ns"] / emulated_results.time_of(one)
        lines.setdefault(size_text(one["bytes"]), []).append((one["helpers"], factor))
    plot.helpers(file, lines, f"emulated {stored['model']['name']}, {label}")
