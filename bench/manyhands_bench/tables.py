# SPDX-License-Identifier: BSD-3-Clause
"""Results as tables of at most 100 columns: one per case and MPI, and the bars at the end."""

from __future__ import annotations

from statistics import median

from rich import box
from rich.table import Table
from rich.text import Text

from manyhands_bench.heap_bars import Verdict as HeapVerdict
from manyhands_bench.loops import BARS as LOOP_BARS
from manyhands_bench.loops import Gain, LoopVerdict, RankTime, Step, growth
from manyhands_bench.stats import (
    NOISY_SPREAD,
    PLANE_BARS,
    Beside,
    Comparison,
    Limit,
    Line,
    Subject,
    Verdict,
)

# The rows of a table: comparisons, each with the name of its variant ("" if the case has only one
# variant).
Rows = list[tuple[str, Comparison]]


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
    if subject.kind in ("pack", "pack-unpack"):
        return f"{subject.kind} {subject.name.removeprefix('plane ').replace(' = ', '=')}"
    if subject.kind == "bundle":
        return subject.name
    words = [subject.name, size_text(subject.bytes) if subject.bytes else ""]
    return " ".join(word for word in words if word)


def ratio_text(c: Comparison) -> Text:
    style = "yellow" if c.noisy else "green" if c.low > 1.05 else "red" if c.high < 0.95 else ""
    return Text(factor_text(c.ratio), style=style)


def factor_text(factor: float) -> str:
    return f"{factor:.2f}" if factor < 10 else f"{factor:.0f}"


def range_text(c: Comparison) -> str:
    return f"{factor_text(c.low)}-{factor_text(c.high)}" + (" !" if c.noisy else "")


def plain_table(title: str, columns: list[str]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    return table


def two_arms(title: str, rows: Rows, limits: dict[int, Limit]) -> Table:
    """The first arm against another arm; for a PingPong also throughput and the limit of memcpy."""
    with_rates = any(c.subject.bytes in limits for _, c in rows)
    arm = rows[0][1].arm
    columns = ["", "plain", arm, "ratio", "range"]
    if with_rates:
        columns += ["GB/s", "memcpy 1/2 cores", "of limit"]
    table = plain_table(title, columns)
    for variant, c in rows:
        row = [
            _row_text(variant, c.subject),
            time_text(c.plain_ns),
            time_text(c.other_ns),
            ratio_text(c),
            range_text(c),
        ]
        table.add_row(*row, *(_rates(c, limits) if with_rates else []))
    return table


def _row_text(variant: str, subject: Subject) -> str:
    return ": ".join(text for text in (variant, subject_text(subject)) if text)


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


def noncontiguous(title: str, base: str, rows: Rows, beside: dict[Subject, Beside]) -> Table:
    """Two arms, beside the hand-written loop on one core and on two, and memcpy on two cores."""
    columns = ["", base, rows[0][1].arm, "ratio", "range", "loop 1/2", "memcpy 2"]
    table = plain_table(title, columns)
    one_way = len({c.subject.kind for _, c in rows}) == 1
    for _, c in rows:
        also = beside[c.subject]
        table.add_row(
            c.subject.name if one_way else subject_text(c.subject),
            time_text(c.plain_ns),
            time_text(c.other_ns),
            ratio_text(c),
            range_text(c),
            _pair_text(also.loop, also.loops),
            time_text(also.copies),
        )
    return table


def _pair_text(one: float, both: float) -> str:
    """Two times in ns as text, both in the unit that suits the first."""
    unit, factor = ("ns", 1.0) if one < 1e3 else ("us", 1e3) if one < 1e6 else ("ms", 1e6)
    return f"{one / factor:.3g}/{both / factor:.3g} {unit}"


def many_arms(title: str, rows: Rows) -> Table:
    """The time of the first arm, then the ratio of every other arm."""
    arms = list(dict.fromkeys(c.arm for _, c in rows))
    table = plain_table(title, ["", "plain", *arms])
    for variant, subject in dict.fromkeys((variant, c.subject) for variant, c in rows):
        row = {c.arm: c for name, c in rows if (name, c.subject) == (variant, subject)}
        plain = time_text(next(iter(row.values())).plain_ns)
        cells = [
            Text.assemble(ratio_text(row[arm]), "!" if row[arm].noisy else "") if arm in row else ""
            for arm in arms
        ]
        table.add_row(_row_text(variant, subject), plain, *cells)
    return table


def gains(title: str, found: list[Gain]) -> Table:
    """The part of the possible gain, by variant and loop, with the range of the rounds."""
    loops = list(dict.fromkeys(gain.loop for gain in found))
    table = plain_table(f"{title}: share of the possible gain (range of the rounds)", ["", *loops])
    for variant in dict.fromkeys(gain.variant for gain in found):
        row = {gain.loop: gain for gain in found if gain.variant == variant}
        table.add_row(variant, *(_gain_text(row[loop]) if loop in row else "" for loop in loops))
    return table


def _gain_text(gain: Gain) -> str:
    low, high = min(gain.gained), max(gain.gained)
    return f"{median(gain.gained):.0%} ({low:.0%}-{high:.0%})"


def rank_times(title: str, found: list[RankTime]) -> Table:
    """A row for each rank, with the time in the rank's own loop."""
    arms = list(found[0].arms)
    table = plain_table(f"{title}: time of each rank in its loop", ["", *arms])
    for time in found:
        cells = [time_text(time.arms[arm]) if arm in time.arms else "" for arm in arms]
        table.add_row(f"{time.loop}, rank {time.rank}", *cells)
    return table


def sweep(title: str, steps: list[Step]) -> Table:
    """A row for each imbalance, measured over the mean and over the smallest rank, and a last row
    with the growth of the times.
    """
    columns = ["largest over mean", "over smallest", "plain", "ideal", "shared", "ratio"]
    table = plain_table(title, columns)
    for step in steps:
        plain, shared = median(step.plain), median(step.shared)
        over = (f"+{step.over_mean:.0%}", f"+{step.over_smallest:.0%}")
        ideal = time_text(median(step.ideal)) if step.ideal else ""
        times = (time_text(plain), ideal, time_text(shared))
        table.add_row(*over, *times, f"{plain / shared:.2f}")
    grown = [f"{growth([getattr(s, arm) for s in steps]):.3f}" for arm in ("plain", "shared")]
    table.add_row("longest / shortest", "", grown[0], "", grown[1], "")
    return table


def streams(title: str, lines: list[Line]) -> Table:
    """Copy rates in GB/s: a row for each way, size and chunk, a column for each number of ranks."""
    counts = sorted({line["ranks"] for line in lines})
    table = plain_table(title, ["way", "bytes", "chunk", *(f"{n} ranks" for n in counts)])
    rows: dict[tuple[str, int, int], dict[int, list[float]]] = {}
    for line in lines:
        key = (line["way"], line["bytes"], line.get("chunk", 0))
        rows.setdefault(key, {}).setdefault(line["ranks"], []).extend(line["gb_per_s"])
    for (way, size, chunk), rates in rows.items():
        cells = [f"{median(rates[n]):.1f}" if n in rates else "" for n in counts]
        table.add_row(way, size_text(size), size_text(chunk) if chunk else "", *cells)
    return table


def bars(verdicts: dict[str, list[Verdict]]) -> Table:
    """Every bar under every MPI: the measured number, and whether it meets the bar."""
    table = plain_table("Bars: median over the rounds, the worst size or call decides", ["bar"])
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


def plane_bars(verdicts: dict[str, list[Verdict]]) -> Table:
    """The bars of noncontiguous messages, a row for each MPI, since bars differ by MPI."""
    columns = ["bar", "MPI", "at least", "worst", "range", ""]
    table = plain_table("Bars of X-Z planes: median over the rounds, the worst Z decides", columns)
    for i in range(len(PLANE_BARS)):
        for mpi, row in verdicts.items():
            v = row[i]
            if v.worst is None:
                continue
            word = Text("met", style="green")
            if not v.met:
                word = Text("not met", style="yellow" if v.within_noise else "red")
            at_least = factor_text(v.bar.ratio_for(mpi))
            table.add_row(
                v.bar.name, mpi, at_least, factor_text(v.worst.ratio), range_text(v.worst), word
            )
    return table


def heap_bars(verdicts: dict[str, list[HeapVerdict]]) -> Table:
    """The bars of the shared heap: a row for each case and subject, a column for each MPI."""
    table = plain_table(
        "Bars with a shared heap: median, and number of rounds that reach the bar", ["", "at least"]
    )
    for name in verdicts:
        table.add_column(name, justify="right", no_wrap=True)
    found = {(v.case, v.comparison.subject, n): v for n, row in verdicts.items() for v in row}
    bars = {(v.case, v.comparison.subject): v.at_least for v in found.values()}
    for (case, subject), at_least in bars.items():
        row = [found.get((case, subject, name)) for name in verdicts]
        cells = [_heap_verdict(v) if v else "" for v in row]
        table.add_row(f"{case} {subject_text(subject)}", factor_text(at_least), *cells)
    return table


def _heap_verdict(v: HeapVerdict) -> Text:
    """The text for a verdict. Yellow: the bar is missed, but a sign test does not tell the median
    from the bar.
    """
    c = v.comparison
    style = "green" if v.met else "red" if v.told_apart else "yellow"
    mark = "" if v.met else " -" if v.told_apart else " ~"
    return Text(f"{factor_text(c.ratio)} ({v.reached}/{len(c.ratios)}){mark}", style=style)


def loop_bars(verdicts: dict[str, list[LoopVerdict]]) -> Table:
    """The bars of shared loops, with a row for each MPI under which a bar was measured."""
    table = plain_table(
        "Bars of shared loops: median over the rounds, the worst loop decides",
        ["bar", "MPI", "measured", "range", ""],
    )
    for bar in LOOP_BARS:
        for name, row in verdicts.items():
            for verdict in row:
                if verdict.bar is bar:
                    table.add_row(bar.name, name, *_loop_verdict(verdict))
    return table


def _loop_verdict(v: LoopVerdict) -> tuple[str, str, Text]:
    assert v.worst is not None
    text = v.bar.text
    low, high = min(v.worst.rounds), max(v.worst.rounds)
    word = Text("met", style="green")
    if v.within_noise:
        word = Text("missed within noise", style="yellow")
    elif not v.met:
        word = Text("not met", style="red")
    return text(v.worst.value), f"{text(low)}-{text(high)}" if low < high else "", word


def loop_verdict_text(v: LoopVerdict) -> str:
    """The verdict as a line of text, to stand below the tables of its case."""
    assert v.worst is not None
    value, span, word = _loop_verdict(v)
    where = f" ({v.worst.where})" if v.worst.where else ""
    rounds = f", {span} in the rounds" if span else ""
    return f"{v.bar.name}: {value}{where}{rounds}: {word}"


def worst_text(v: Verdict) -> str:
    """The text for a missed bar: the worst subject, and whether noise could be the reason."""
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
