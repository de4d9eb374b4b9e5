# SPDX-License-Identifier: BSD-3-Clause
"""The pictures of `mh bench` (matplotlib).

The picture of speedup over message size has a line for each MPI and a band for the range of the
rounds. The picture of collectives has a panel for each. Times of ranks in a loop are bars, times
over imbalance are lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from manyhands_bench.loops import RankTime, Step
from manyhands_bench.stats import Comparison
from manyhands_bench.tables import size_text

_COLUMNS = 5  # panels in a row


@contextmanager
def _picture(file: Path, title: str) -> Iterator[Any]:
    """The axes of a picture; the end of the context writes the picture to the file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    yield axes
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)


def speedup(file: Path, comparisons: dict[str, list[Comparison]], subtitle: str) -> None:
    """Draws the speedup of a PingPong over message size. `comparisons` has the times of one helped
    arm by MPI name.
    """
    with _picture(file, f"PingPong with Manyhands, {subtitle}") as axes:
        for name, found in comparisons.items():
            points = sorted(found, key=lambda c: c.subject.bytes)
            sizes = [c.subject.bytes for c in points]
            (line,) = axes.plot(sizes, [c.ratio for c in points], marker="o", ms=4, label=name)
            low, high = [c.low for c in points], [c.high for c in points]
            axes.fill_between(sizes, low, high, alpha=0.12, color=line.get_color(), lw=0)
        ticks = sorted({c.subject.bytes for found in comparisons.values() for c in found})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [size_text(size) for size in ticks], rotation=45, ha="right")
        axes.minorticks_off()
        axes.axhline(1, color="0.3", lw=1)
        axes.set_xlabel("message size")
        axes.set_ylabel("plain time / helped time")


def collectives(file: Path, comparisons: dict[str, list[Comparison]], subtitle: str) -> None:
    """Draws a panel for each collective with sizes. `comparisons` has the times of one helped arm
    by MPI name.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    calls = list(dict.fromkeys(c.subject.name for f in comparisons.values() for c in f))
    rows = -(-len(calls) // _COLUMNS)
    figure, axes = pyplot.subplots(
        rows,
        _COLUMNS,
        figsize=(2.4 * _COLUMNS, 2 * rows + 0.8),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for panel in axes.flat[len(calls) :]:
        panel.set_visible(False)
    for at, (call, panel) in enumerate(zip(calls, axes.flat, strict=False)):
        _panel(panel, call, comparisons)
        panel.tick_params(labelbottom=at + _COLUMNS >= len(calls))
    figure.suptitle(
        f"Collectives with Manyhands, plain time / helped time, {subtitle}", fontsize=11
    )
    figure.legend(
        *axes.flat[0].get_legend_handles_labels(),
        ncols=len(comparisons),
        loc="outside lower center",
        frameon=False,
    )
    figure.savefig(file, dpi=150)
    pyplot.close(figure)


def _panel(axes: Any, call: str, comparisons: dict[str, list[Comparison]]) -> None:
    """Draws the speedup of one collective over the bytes of a rank, a line for each MPI."""
    ticks = set()
    for name, found in comparisons.items():
        points = sorted((c for c in found if c.subject.name == call), key=lambda c: c.subject.bytes)
        sizes = [c.subject.bytes for c in points]
        ticks.update(sizes)
        axes.plot(sizes, [c.ratio for c in points], marker="o", ms=3, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(sorted(ticks), [size_text(size) for size in sorted(ticks)])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.axhline(1, color="0.3", lw=1)
    axes.set_title(call, loc="left", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def ranks(file: Path, times: list[RankTime], subtitle: str) -> None:
    """Draws a group of bars for each rank, with a bar for each arm (MPI Workshare, figure 2)."""
    with _picture(file, f"Time of each rank in the triangular loop, {subtitle}") as axes:
        arms = list(times[0].arms)
        width = 0.8 / len(arms)
        for at, arm in enumerate(arms):
            where = [time.rank + (at - (len(arms) - 1) / 2) * width for time in times]
            axes.bar(where, [time.arms.get(arm, 0) / 1e6 for time in times], width, label=arm)
        axes.set_xticks([time.rank for time in times])
        axes.set_xlabel("rank")
        axes.set_ylabel("ms")


def sweep(file: Path, steps: dict[str, list[Step]], subtitle: str) -> None:
    """Draws plain and shared time over imbalance. `steps` has the steps by MPI name (MPI Workshare,
    figures 4 and 5).
    """
    with _picture(file, f"Finite elements, {subtitle}") as axes:
        for name, found in steps.items():
            over = [100 * step.over_mean for step in found]
            plain = [median(step.plain) / 1e6 for step in found]
            shared = [median(step.shared) / 1e6 for step in found]
            (line,) = axes.plot(over, plain, marker="o", ms=4, ls="--", label=f"{name}, plain")
            axes.plot(over, shared, marker="o", ms=4, color=line.get_color(), label=name)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("elements of the largest rank over the mean, %")
        axes.set_ylabel("ms")


def helpers(file: Path, lines: dict[str, list[tuple[int, float]]], subtitle: str) -> None:
    """Draws the speedup over one core's copy by the number of helpers, a line for each size."""
    with _picture(file, f"PingPong by number of helpers, {subtitle}") as axes:
        for name, points in lines.items():
            counts, factors = zip(*sorted(points), strict=True)
            axes.plot(counts, factors, marker="o", ms=4, label=name)
        axes.axhline(1, color="0.3", lw=1)
        axes.set_xlabel("helpers beside the pair")
        axes.set_ylabel("times as fast as one core's copy")
