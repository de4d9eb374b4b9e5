# SPDX-License-Identifier: BSD-3-Clause
"""Speedup over message size, a line per MPI, the range of the pairs as a band (matplotlib)."""

from __future__ import annotations

from pathlib import Path

from manyhands.benchmarks.stats import Comparison
from manyhands.benchmarks.tables import size_text


def speedup(file: Path, comparisons: dict[str, list[Comparison]], subtitle: str) -> None:
    """Writes the picture. `comparisons` by MPI name, PingPong of one arm only."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
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
    axes.set_title(f"PingPong with Manyhands, {subtitle}", loc="left", fontsize=11)
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)
