# SPDX-License-Identifier: BSD-3-Clause
"""The plots of `mh simulate` (matplotlib), like figures 6 to 10 and table 3 of the paper
(paper.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manyhands.simulating.lines import PARTS, Line, best


@contextmanager
def _picture(file: Path, title: str, columns: int = 1) -> Iterator[list[Any]]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, columns, figsize=(8 if columns == 1 else 11, 4.5), layout="constrained", squeeze=False
    )
    yield list(axes[0])
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    for one in axes[0]:
        one.grid(axis="y", color="0.9")
        one.set_axisbelow(True)
        one.spines[["top", "right"]].set_visible(False)
        one.legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)


def _groups(lines: list[Line], *keys: str) -> dict[tuple[Any, ...], list[Line]]:
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line[key] for key in keys), []).append(line)
    return groups


def efficiency(file: Path, lines: list[Line], title: str) -> None:
    """Draws efficiency over iterations, a line per scheme and number of cores (figures 6 and 7)."""
    reference = best(lines)
    with _picture(file, f"Efficiency of each iteration, {title}") as (axes,):
        for (scheme, cores), group in _groups(lines, "scheme", "cores").items():
            axes.plot(
                [line["iteration"] for line in group],
                [line["efficiency"] / reference for line in group],
                marker="o",
                ms=4,
                label=f"{scheme}, {cores} cores",
            )
        axes.set_xticks(sorted({line["iteration"] for line in lines}))
        axes.set_xlabel("iteration")
        axes.set_ylabel("efficiency, of the best")


def steals(file: Path, lines: list[Line], title: str) -> None:
    """Draws attempted and successful steals of a rank over the number of cores (figures 8 and 9).

    Shows the first, second and last iteration, unless no rank attempted a steal in it.
    """
    last = max(line["iteration"] for line in lines)
    shown = [line for line in lines if line["iteration"] in (1, 2, last) and line["attempts"] > 0]
    with _picture(file, f"Steals of a rank, {title}", 2) as both:
        for axes, key, name in zip(
            both, ("attempts", "steals"), ("attempted", "successful"), strict=True
        ):
            for (scheme, iteration), group in _groups(shown, "scheme", "iteration").items():
                points = sorted(group, key=lambda line: line["cores"])
                axes.errorbar(
                    [line["cores"] for line in points],
                    [line[key] for line in points],
                    [line[f"{key}_std"] for line in points],
                    marker="o",
                    ms=4,
                    capsize=2,
                    label=f"{scheme}, iteration {iteration}",
                )
            axes.set_xscale("log", base=2)
            axes.set_ylim(0, 1.4 * axes.get_ylim()[1])  # space for the legend
            axes.set_xticks(cores := sorted({line["cores"] for line in lines}), cores)
            axes.minorticks_off()
            axes.set_xlabel("cores")
            axes.set_ylabel(name)


def utilization(file: Path, lines: list[Line], title: str) -> None:
    """Draws the share of ranks that run a task near the end of the first and last iteration (figure
    10).
    """
    with _picture(file, f"Utilization, {title}") as (axes,):
        for at, ((scheme, cores), group) in enumerate(_groups(lines, "scheme", "cores").items()):
            for line, style in ((group[0], "--"), (group[-1], "-")):
                shares = [100 * share for share in line["utilization"]]
                times = [part / PARTS for part in range(len(shares))]
                label = f"{scheme}, {cores} cores" if style == "-" else None
                axes.plot(times, shares, style, lw=1.2, color=f"C{at % 10}", label=label)
        axes.set_xlim(0.7, 1.4)
        axes.set_ylim(0, 105)
        axes.set_xlabel("time over ideal time")
        axes.set_ylabel("ranks that run a task, %")


def balancers(file: Path, lines: list[Line], title: str) -> None:
    """Draws time and quality of both balancers over cores. Each point is an initial
    distribution.
    """
    with _picture(file, f"Balancers, {title}", 2) as (times, quality):
        for at, (name, group) in enumerate(_groups(lines, "balancer").items()):
            cores = [line["cores"] * (0.97, 1.03)[at % 2] for line in group]
            times.scatter(cores, [line["seconds"] for line in group], s=14, label=name[0])
            over = [100 * line["over_ideal"] for line in group]
            quality.scatter(cores, over, s=14, label=name[0])
        for axes, label in ((times, "s"), (quality, "longest load over ideal, %")):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(ticks := sorted({line["cores"] for line in lines}), ticks)
            axes.minorticks_off()
            axes.set_xlabel("cores")
            axes.set_ylabel(label)
