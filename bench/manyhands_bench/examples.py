# SPDX-License-Identifier: BSD-3-Clause
"""Results of the programs of examples/workshare, in the form of the benchmark programs' lines.

An example called with `--json -` prints a JSON object over several lines. The object describes one
run or has the list `runs`. The `hash` of a run identifies the result, which must be the same in
every arm and variant.
"""

from __future__ import annotations

import json
from typing import Any

from manyhands_bench.stats import Line


def is_one(output: str) -> bool:
    return output.startswith("{\n")


def lines(output: str) -> list[Line]:
    """A line with the configuration, then a line for each imbalance with the times of its runs."""
    found = json.loads(output)
    runs = found.get("runs", [found])
    config = {key: runs[0][key] for key in ("program", "ranks")}
    steps: dict[float, list[dict[str, Any]]] = {}
    for run in runs:
        steps.setdefault(run["reached_imbalance"], []).append(run)
    return [
        {"kind": "config", **config, "hosts": [], "cpus": []},
        *(_step(over / 100, of_step) for over, of_step in steps.items()),
    ]


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
