# SPDX-License-Identifier: BSD-3-Clause
"""Results as tables of at most 100 columns: one per case and MPI, and the bars at the end."""

from __future__ import annotations

from statistics import median

from rich import box
from rich.table import Table
from rich.text import Text

from manyhands.benchmarks.stats import (
    NOISY_SPREAD,
    Comparison,
    Gain,
    Limit,
    Line,
    Subject,
    Verdict,
)


def size_text(size: int) -> str:
    for shift, unit in ((20, "MB"), (10, "KB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def time_text(ns: float) -> str:
    if ns < 1e3:
        return f"{ns:.1f} ns"
    return f"{ns / 1e3:.2f} us" if ns < 1e6 else f"{ns / 1e6:.2f} ms"


def subject_text(subject: Subject) -> str:
    if subject.kind == "touch":
        return f"{size_text(subject.bytes)}, first pass"
    words = [subject.name, size_text(subject.bytes) if subject.bytes else ""]
    return " ".join(word for word in words if word)


def ratio_text(c: Comparison) -> Text:
    style = "yellow" if c.noisy else "green" if c.low > 1.05 else "red" if c.high < 0.95 else ""
    return Text(factor_text(c.ratio), style=style)


def factor_text(factor: float) -> str:
    return f"{factor:.2f}" if factor < 10 else f"{factor:.0f}"


def range_text(c: Comparison) -> str:
    return f"{factor_text(c.low)}-{factor_text(c.high)}" + (" !" if c.noisy else "")


def _table(title: str, columns: list[str]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    return table


def two_arms(title: str, comparisons: list[Comparison], limits: dict[int, Limit]) -> Table:
    """Plain against one arm; throughput and the memcpy limit beside it where it is a PingPong."""
    with_rates = any(c.subject.bytes in limits for c in comparisons)
    arm = comparisons[0].arm
    columns = ["", "plain", arm, "ratio", "range"]
    if with_rates:
        columns += ["GB/s", "memcpy 1/2 cores", "of limit"]
    table = _table(title, columns)
    for c in comparisons:
        row = [
            subject_text(c.subject),
            time_text(c.plain_ns),
            time_text(c.other_ns),
            ratio_text(c),
            range_text(c),
        ]
        table.add_row(*row, *(_rates(c, limits) if with_rates else []))
    return table


def _rates(c: Comparison, limits: dict[int, Limit]) -> list[str]:
    size = c.subject.bytes
    if c.subject.kind != "pingpong" or size not in limits:
        return []
    limit = limits[size]
    reached = size / c.other_ns
    return [
        f"{size / c.plain_ns:.1f} -> {reached:.1f}",
        f"{limit.one:.1f} / {limit.together:.1f}",
        f"{reached / limit.together:.0%}",
    ]


def gain_text(gain: Gain) -> str:
    low, high = min(gain.gained), max(gain.gained)
    return (
        f"{gain.loop}: {median(gain.gained):.0%} of the possible gain ({low:.0%} to {high:.0%}); "
        f"ideal {time_text(gain.ideal_ns)}"
    )


def many_arms(title: str, comparisons: list[Comparison]) -> Table:
    """Plain time, then the ratio of every arm."""
    arms = list(dict.fromkeys(c.arm for c in comparisons))
    table = _table(title, ["", "plain", *arms])
    for subject in dict.fromkeys(c.subject for c in comparisons):
        row = {c.arm: c for c in comparisons if c.subject == subject}
        plain = time_text(next(iter(row.values())).plain_ns)
        cells = [
            Text.assemble(ratio_text(row[arm]), "!" if row[arm].noisy else "") if arm in row else ""
            for arm in arms
        ]
        table.add_row(subject_text(subject), plain, *cells)
    return table


def streams(title: str, lines: list[Line]) -> Table:
    """Copy rates in GB/s: a row per way, size and chunk, a column per number of ranks."""
    counts = sorted({line["ranks"] for line in lines})
    table = _table(title, ["way", "bytes", "chunk", *(f"{n} ranks" for n in counts)])
    rows: dict[tuple[str, int, int], dict[int, list[float]]] = {}
    for line in lines:
        key = (line["way"], line["bytes"], line.get("chunk", 0))
        rows.setdefault(key, {}).setdefault(line["ranks"], []).extend(line["gb_per_s"])
    for (way, size, chunk), rates in rows.items():
        cells = [f"{median(rates[n]):.1f}" if n in rates else "" for n in counts]
        table.add_row(way, size_text(size), size_text(chunk) if chunk else "", *cells)
    return table


def bars(verdicts: dict[str, list[Verdict]]) -> Table:
    """Every bar under every MPI: the measured number, met or not."""
    table = _table("Bars: median over the rounds, the worst size or call decides", ["bar"])
    for name in verdicts:
        table.add_column(name, justify="right", no_wrap=True)
    for row in zip(*verdicts.values(), strict=True):
        table.add_row(row[0].bar.name, *(_verdict(v) for v in row))
    return table


def _verdict(v: Verdict) -> Text:
    if v.worst is None:
        return Text("not measured", style="dim")
    number = f"{v.worst.added_ns:+.0f}" if v.bar.added_ns is not None else f"{v.worst.ratio:.2f}"
    if v.met:
        return Text(f"{number} met", style="green")
    return Text(f"{number} not met", style="yellow" if v.within_noise else "red")


def worst_text(v: Verdict) -> str:
    """For a bar that is not met: where it fails, and whether noise could be the reason."""
    assert v.worst is not None
    noise = "; some pairs meet it, so noise may decide" if v.within_noise else ""
    at = subject_text(v.worst.subject)
    return (
        f"{v.bar.name}: {at}, {time_text(v.worst.plain_ns)} plain, "
        f"{time_text(v.worst.other_ns)} helped, range {range_text(v.worst)}{noise}"
    )


def noise_text(comparisons: list[Comparison]) -> str | None:
    noisy = [c for c in comparisons if c.noisy]
    if not noisy:
        return None
    return (
        f"noisy: {len(noisy)} of {len(comparisons)} ratios vary by more than {NOISY_SPREAD:.0%} "
        "between pairs (marked !); close other programs, or raise --rounds"
    )
