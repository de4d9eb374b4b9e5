# SPDX-License-Identifier: BSD-3-Clause
"""Draws by-ranks.svg: the gain from third ranks, from the stored run on sixteen cores.

Run it after a change: python docs/img/by_ranks.py. Standard library only; tests check that the
picture in the repository is the one that this script draws. A point is the median of three pairs of
launches, and its bar is their range. Each series has a colour, a mark and a label of its own, so
readers who see no colours can tell them apart.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(DOCS))

import make_results  # noqa: E402

SAMPLES = "sixteen-cores-2026-11-26.json"
WIDTH, HEIGHT, TOP, BOTTOM, MOST = 900, 380, 60, 320, 13
INK, FAINT, LINE = "#1f2933", "#5f6b7a", "#d9dee5"
RANKS = (2, 3, 4, 8, 16)


class Panel(NamedTuple):
    left: int
    title: str
    wanted: dict[str, Any]


class Series(NamedTuple):
    arm: str
    label: str
    colour: str


PANELS = (
    Panel(60, "16 MB PingPong (figure 4c)", {"case": "helpers", "bytes": "16M"}),
    Panel(
        500,
        "32 MB planes, packed (figure 5)",
        {"case": "planes-helpers", "kind": "pack", "bytes": "32M"},
    ),
)
SERIES = (
    Series("helped", "without a heap", "#0072b2"),
    Series("heap", "with a heap", "#d55e00"),
)


def y_of(ratio: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * ratio / MOST, 1)


def x_of(panel: Panel, ranks: int) -> float:
    return round(panel.left + 30 + 75 * (math.log2(ranks) - 1), 1)


def text(x: float, y: float, words: str, colour: str = INK, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}">{words}</text>'


def stroke(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    ends = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def axes(panel: Panel) -> list[str]:
    parts = [f'<g font-weight="bold">{text(panel.left, 28, panel.title)}</g>']
    for ratio in (0, 2, 4, 6, 8, 10, 12):
        y = y_of(ratio)
        parts.append(stroke(panel.left, y, panel.left + 262, y, LINE))
        parts.append(text(panel.left - 8, y + 5, str(ratio), FAINT, "end"))
    parts.append(stroke(panel.left, y_of(1), panel.left + 262, y_of(1), FAINT, 1.5))
    parts.append(text(panel.left + 269, y_of(1) + 5, "plain", FAINT))
    for ranks in RANKS:
        parts.append(text(x_of(panel, ranks), BOTTOM + 20, str(ranks), FAINT, "middle"))
    return [*parts, text(panel.left + 142, BOTTOM + 42, "ranks, a core each", FAINT, "middle")]


def mark(series: Series, x: float, y: float) -> str:
    if series.arm == "helped":
        return f'<circle cx="{x}" cy="{y}" r="5" fill="{series.colour}"/>'
    return (
        f'<rect x="{x - 5}" y="{round(y - 5, 1)}" width="10" height="10" fill="{series.colour}"/>'
    )


def curve(panel: Panel, series: Series) -> list[str]:
    parts, points = [], []
    for ranks in RANKS:
        wanted = {**panel.wanted, "mpi": "mpich4", "variant": f"{ranks} ranks", "arm": series.arm}
        found = make_results.comparison(SAMPLES, wanted)
        x, y = x_of(panel, ranks), y_of(found.ratio)
        parts.append(stroke(x, y_of(found.low), x, y_of(found.high), series.colour, 2))
        parts.append(mark(series, x, y))
        points.append((x, y))
    path = " ".join(f"{x},{y}" for x, y in points)
    line = f'<polyline points="{path}" fill="none" stroke="{series.colour}" stroke-width="2"/>'
    x, y = points[-1]
    return [line, *parts, text(x + 14, round(y + 5, 1), series.label, series.colour)]


def draw() -> str:
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for panel in PANELS:
        parts += axes(panel)
        parts += [part for series in SERIES for part in curve(panel, series)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" font-size="14" '
        'font-family="Helvetica, Arial, sans-serif">\n'
        "<title>How many times as fast as plain, by the number of ranks</title>\n"
        "<desc>Two ranks exchange, the others wait in a barrier. MPICH 4.0 on 16 cores, "
        "26 November 2026; medians of three pairs of launches and their range.</desc>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    (DOCS / "img" / "by-ranks.svg").write_text(draw(), encoding="utf-8")
