# SPDX-License-Identifier: BSD-3-Clause
"""Results of the programs of examples, in the form of the benchmark programs' lines.

A program of examples/workshare called with `--json -` prints a JSON object over several lines. The
object describes one run or has the list `runs`. The `hash` of a run, or the number of triangles,
identifies the result, which must be the same in every arm and variant. The product of
examples/bspmm prints a JSON object in one line, with the seconds of the whole product and of its
parts. The stencil of examples/stencil called with `--json -` prints the seconds of the whole run
and of each rank.
"""

from __future__ import annotations

import json
from typing import Any

from manyhands_bench.stats import Line

_PARTS = ("counter", "get", "multiply", "accumulate")  # of examples/bspmm


def is_one(output: str) -> bool:
    return output.startswith(("{\n", '{"ranks": '))


def lines(output: str) -> list[Line]:
    """A line with the configuration, then a line for each imbalance with the times of its runs."""
    found = json.loads(output)
    if "counter" in found:
        return _product(found)
    if found.get("program") == "stencil":
        return _stencil(found)
    if "triangles" in found:
        return _of_triangles(found)
    runs = found.get("runs", [found])
    config = {key: runs[0][key] for key in ("program", "ranks")}
    steps: dict[float, list[dict[str, Any]]] = {}
    for run in runs:
        steps.setdefault(run["reached_imbalance"], []).append(run)
    return [
        {"kind": "config", **config, "hosts": [], "cpus": []},
        *(_step(over / 100, of_step) for over, of_step in steps.items()),
    ]


def _product(found: dict[str, Any]) -> list[Line]:
    """A line with the configuration, then lines for the whole product and for each of its parts."""
    seconds = {"all": found["seconds"]} | {part: found[part] for part in _PARTS}
    return _program("bspmm", found["ranks"], seconds)


def _stencil(found: dict[str, Any]) -> list[Line]:
    """A line with the configuration, then lines for the whole run, for the rank that was in MPI
    longest, and one for the waits of each rank.
    """
    times = found["times"]
    waits = {f"waits of rank {one['rank']}": one["wait_s"] for one in times}
    in_mpi = {"in MPI": max(one["mpi_s"] for one in times)}
    seconds = {"all": found["seconds"]} | in_mpi | waits
    return _program("stencil", found["ranks"], seconds)


def _program(name: str, ranks: int, seconds: dict[str, float]) -> list[Line]:
    """The configuration, and a line for each part that took time. Nothing is a multiple of none."""
    return [
        {"kind": "config", "program": name, "ranks": ranks, "hosts": [], "cpus": []},
        *(
            {"kind": "program", "name": part, "mean_ns": [1e9 * s]}
            for part, s in seconds.items()
            if s > 0
        ),
    ]


def _of_triangles(found: dict[str, Any]) -> list[Line]:
    ranks = found["ranks"]
    walls = found["measured"]["repetition_wall_s"]
    line = {
        "kind": "loop",
        "name": "triangles",
        "ranks": ranks,
        "mean_ns": [1e9 * wall for wall in walls],
        "hash": str(found["triangles"]),
    }
    if "ideal_s" in found:
        line["ideal_ns"] = [1e9 * found["ideal_s"]] * len(walls)
    config = {"kind": "config", "program": "triangles", "ranks": ranks, "hosts": [], "cpus": []}
    return [config, line]


def _step(over_mean: float, runs: list[dict[str, Any]]) -> Line:
    work = [rank["work"] for rank in runs[0]["times"]]
    return {
        "kind": "loop",
        "name": f"{runs[0]['program'].replace('_', ' ')} +{over_mean:.0%}",
        "ranks": runs[0]["ranks"],
        "mean_ns": [1e9 * run["total_s"] for run in runs],
        "ideal_ns": [1e9 * run["ideal_s"] for run in runs],
        "over_mean": over_mean,
        "over_smallest": max(work) / min(work) - 1,
        "hash": " ".join(sorted({run["hash"] for run in runs})),
    }
