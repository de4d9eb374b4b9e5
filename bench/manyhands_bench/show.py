# SPDX-License-Identifier: BSD-3-Clause
"""The output of `mh bench` for a report, measured now or stored: tables, bars, pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from manyhands_bench import heap_bars, launch, loops, mpis, plot, stats, tables
from manyhands_bench.cases import CASES, HELPED
from manyhands_bench.loops import Record


def _title(*group: Record) -> str:
    """The title of a table: MPI, case, and number of ranks of the variants in `group`."""
    record = group[0]
    case = next((c.title for c in CASES if c.name == record["case"]), record["case"])
    config = record["config"]
    if record["mpi"] == mpis.SIMULATED.name:
        return f"{record['mpi']}: {case}"
    ranks = [one["config"]["ranks"] for one in group]
    count = f"{ranks[0]}" if min(ranks) == max(ranks) else f"{min(ranks)} to {max(ranks)}"
    where = f"{count} ranks" + (", not pinned" if launch.unpinned(config) else "")
    return f"{record['mpi']}: {case} ({where})"


def _comparisons(record: Record, pick: stats.Estimator) -> list[stats.Comparison]:
    return stats.compare(record["rounds"], record["arms"], loops.estimator(record["case"], pick))


def _groups(report: dict[str, Any]) -> list[list[Record]]:
    """The records in groups: the variants of one case under one MPI."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in report["records"]:
        found.setdefault((record["mpi"], record["case"]), []).append(record)
    return list(found.values())


def report_tables(console: Console, report: dict[str, Any], pick: stats.Estimator) -> None:
    here = report["machine"]
    console.print(
        f"{here['model']}, {here['cores']} cores, {here['numa_nodes']} NUMA node(s), "
        f"huge pages {here['huge_pages']}, {report['date']}"
    )
    if report["control"]:
        console.print("control: both arms are plain; ratios show the noise of this machine")
    if pick is min:
        console.print("best case: the fastest batch of every launch, not the median")
    everything = []
    for group in _groups(report):
        rows = [(r.get("variant", ""), c) for r in group for c in _comparisons(r, pick)]
        everything += [c for _, c in rows]
        console.print()
        _show_group(console, group, rows, pick)
    noise = tables.noise_text(everything)
    if noise:
        console.print(f"[yellow]{noise}[/]", soft_wrap=True)


def _show_group(
    console: Console, group: list[Record], rows: tables.Rows, pick: stats.Estimator
) -> None:
    for record in group:
        for error in dict.fromkeys(record["errors"]):
            where = f"{record['mpi']} {record['case']} {record.get('variant', '')}".strip()
            console.print(f"{where}: {error}", style="red", markup=False)
    done = [record for record in group if record["config"] is not None]
    if not done:
        return
    title = _title(*done)
    if rows:
        limits = stats.limits(done[0]["rounds"])
        beside = stats.beside(done[0]["rounds"])
        if beside and len(done[0]["arms"]) == 2:
            console.print(tables.noncontiguous(title, done[0]["arms"][0], rows, beside))
        elif len(done[0]["arms"]) > 2:
            console.print(tables.many_arms(title, rows))
        else:
            console.print(tables.two_arms(title, rows, limits))
        _show_loops(console, done, pick)
        return
    lines = [
        line
        for one in done[0]["rounds"]
        for lines in one.values()
        for line in lines
        if line["kind"] == "stream"
    ]
    if lines:
        console.print(tables.streams(title, lines))


def _show_loops(console: Console, group: list[Record], pick: stats.Estimator) -> None:
    """Prints the output of loop cases that follows the table of times: gains, times of ranks,
    sweeps, bars.
    """
    name, mpi = group[0]["case"], group[0]["mpi"]
    found = [gain for record in group for gain in loops.gains(record, pick)]
    if found and name in ("loops", "loops-ranks", "loops-victims", *loops.STATIC_PROGRAMS):
        console.print(tables.gains(mpi, found))
    if name in ("loops-ranks", "loops-nodes"):
        for record in group:
            times = loops.rank_times(record, pick)
            if times:
                console.print(tables.rank_times(_title(record), times))
    sweeps = ("loops-imbalance", *loops.STATIC_PROGRAMS)
    steps = loops.sweep(group, pick) if name in sweeps else []
    if steps:
        console.print(tables.sweep(f"{mpi}: by imbalance", steps))
    for verdict in loops.verdicts(group, pick):
        console.print(tables.loop_verdict_text(verdict), soft_wrap=True)


def bars(console: Console, report: dict[str, Any], pick: stats.Estimator) -> None:
    shown = [
        show(console, report, pick)
        for show in (_show_message_bars, _show_plane_bars, _show_heap_bars, _show_loop_bars)
    ]
    if not any(shown):
        console.print(
            "no bars to show: they belong to the cases latency, pingpong, pingpong-cells, planes, "
            f"bundle, {', '.join(heap_bars.CASES)}, and to the cases of loops"
        )


def _by_mpi(
    report: dict[str, Any], cases: tuple[str, ...], pick: stats.Estimator
) -> dict[str, list[stats.Comparison]]:
    found: dict[str, list[stats.Comparison]] = {}
    for record in report["records"]:
        if record["case"] in cases:
            found.setdefault(record["mpi"], []).extend(_comparisons(record, pick))
    return found


def _show_plane_bars(console: Console, report: dict[str, Any], pick: stats.Estimator) -> bool:
    by_mpi = _by_mpi(report, ("planes", "bundle"), pick)
    if not by_mpi:
        return False
    verdicts = {
        name: [stats.judge(bar, c, name) for bar in stats.PLANE_BARS] for name, c in by_mpi.items()
    }
    console.print()
    console.print(tables.plane_bars(verdicts))
    return True


def _show_heap_bars(console: Console, report: dict[str, Any], pick: stats.Estimator) -> bool:
    verdicts: dict[str, list[heap_bars.Verdict]] = {}
    for record in report["records"]:
        found = heap_bars.verdicts(record["case"], _comparisons(record, pick))
        if found:
            verdicts.setdefault(record["mpi"], []).extend(found)
    if not verdicts:
        return False
    console.print()
    console.print(tables.heap_bars(verdicts))
    console.print(
        "~ missed, but a sign test finds no significant difference from the bar; - missed"
    )
    return True


def _show_message_bars(console: Console, report: dict[str, Any], pick: stats.Estimator) -> bool:
    by_mpi = _by_mpi(report, ("latency", "pingpong"), pick)
    cells = _by_mpi(report, ("pingpong-cells",), pick)
    if not by_mpi and not cells:
        return False
    asked = [(bar, by_mpi) for bar in stats.BARS if by_mpi]
    asked += [(bar, cells) for bar in stats.CELL_BARS if cells]
    verdicts = {
        name: [stats.judge(bar, measured.get(name, [])) for bar, measured in asked]
        for name in {**by_mpi, **cells}
    }
    console.print()
    console.print(tables.bars(verdicts))
    for name, row in verdicts.items():
        for verdict in row:
            if verdict.worst is not None and not verdict.met:
                console.print(f"{name}: {tables.worst_text(verdict)}", soft_wrap=True)
    for record in report["records"]:
        text = _best_text(record)
        if text:
            console.print(f"{record['mpi']}: {text}")
    return True


def _show_loop_bars(console: Console, report: dict[str, Any], pick: stats.Estimator) -> bool:
    verdicts = loop_verdicts(report, pick)
    if not verdicts:
        return False
    console.print()
    console.print(tables.loop_bars(verdicts))
    return True


def loop_verdicts(
    report: dict[str, Any], pick: stats.Estimator
) -> dict[str, list[loops.LoopVerdict]]:
    by_mpi: dict[str, list[Record]] = {}
    for record in report["records"]:
        by_mpi.setdefault(record["mpi"], []).append(record)
    found = {name: loops.verdicts(records, pick) for name, records in by_mpi.items()}
    return {name: verdicts for name, verdicts in found.items() if verdicts}


def _best_text(record: Record) -> str | None:
    """The fastest helped message of the largest size, beside the rate of memcpy; None if not
    measured.
    """
    if record["case"] != "pingpong":
        return None
    limits = stats.limits(record["rounds"])
    size = max(limits, default=0)
    rate = stats.best_rate(record["rounds"], HELPED.name, size)
    if rate is None:
        return None
    together = limits[size].together
    return (
        f"fastest helped {tables.size_text(size)} message {rate:.1f} GB/s, {rate / together:.0%} "
        f"of memcpy on two cores ({together:.1f} GB/s)"
    )


def draw(console: Console, report: dict[str, Any], file: Path, pick: stats.Estimator) -> None:
    """Draw every picture of a report. A single picture goes to `file`; several go to files with
    their kind in the name.
    """
    pictures = [
        p
        for p in (
            _speedup(report, pick),
            _collectives(report, pick),
            _ranks(report, pick),
            _sweep(report, pick),
        )
        if p
    ]
    if not pictures:
        console.print("no plot: it needs pingpong, collectives, loops-ranks or loops-imbalance")
    for kind, draw in pictures:
        target = file if len(pictures) == 1 else file.with_stem(f"{file.stem}-{kind}")
        draw(target)
        console.print(f"wrote {target}", soft_wrap=True)


Picture = tuple[str, Callable[[Path], None]]


def _speedup(report: dict[str, Any], pick: stats.Estimator) -> Picture | None:
    drawn = {
        record["mpi"]: [c for c in _comparisons(record, pick) if c.subject.kind == "pingpong"]
        for record in report["records"]
        if record["case"] == "pingpong"
    }
    arm = "control" if report["control"] else HELPED.name
    subtitle = f"2 ranks on {report['machine']['cores']} cores ({arm})"
    return ("speedup", lambda file: plot.speedup(file, drawn, subtitle)) if drawn else None


def _collectives(report: dict[str, Any], pick: stats.Estimator) -> Picture | None:
    """The picture of short and long collectives; a barrier has no size and is left out."""
    drawn: dict[str, list[stats.Comparison]] = {}
    for record in report["records"]:
        if record["case"] in ("collectives", "collectives-large"):
            drawn.setdefault(record["mpi"], []).extend(
                c
                for c in _comparisons(record, pick)
                if c.subject.kind == "collective" and c.subject.bytes and c.subject.name != "limit"
            )
    subtitle = f"2 ranks on {report['machine']['cores']} cores"
    return ("collectives", lambda file: plot.collectives(file, drawn, subtitle)) if drawn else None


def _ranks(report: dict[str, Any], pick: stats.Estimator) -> Picture | None:
    """The picture of the first MPI, for its variant with the most ranks."""
    done = [r for r in report["records"] if r["case"] == "loops-ranks" and r["config"]]
    if not done:
        return None
    shown = max((r for r in done if r["mpi"] == done[0]["mpi"]), key=lambda r: r["config"]["ranks"])
    times = loops.rank_times(shown, pick)
    subtitle = (
        f"{shown['mpi']}, {shown['config']['ranks']} ranks on {report['machine']['cores']} cores"
    )
    return ("ranks", lambda file: plot.ranks(file, times, subtitle)) if times else None


def _sweep(report: dict[str, Any], pick: stats.Estimator) -> Picture | None:
    steps = {
        group[0]["mpi"]: loops.sweep(group, pick)
        for group in _groups(report)
        if group[0]["case"] == "loops-imbalance"
    }
    subtitle = f"{report['machine']['cores']} cores, MPI alone (dashed) and shared"
    return ("imbalance", lambda file: plot.sweep(file, steps, subtitle)) if steps else None
