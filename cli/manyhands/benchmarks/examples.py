# SPDX-License-Identifier: BSD-3-Clause
"""Results of the example programs (`--json -`) in the form of the benchmark programs' lines.

An example prints one object over several lines and has one time a launch. Its `hash` names the
result, which must be the same in every arm and variant.
"""

from __future__ import annotations

import json

from manyhands.benchmarks.stats import Line


def is_one(output: str) -> bool:
    return output.startswith("{\n")


def lines(output: str) -> list[Line]:
    found = json.loads(output)
    layers = [rank["layers"] for rank in found["times"]]
    config = {"kind": "config", "program": found["program"], "ranks": found["ranks"]}
    line = {
        "kind": "loop",
        "name": found["program"].replace("_", " "),
        "ranks": found["ranks"],
        "mean_ns": [1e9 * found["total_s"]],
        "over_mean": found["reached_imbalance"] / 100,
        "over_smallest": max(layers) / min(layers) - 1,
        "hash": found["hash"],
    }
    return [config | {"hosts": [], "cpus": []}, line]
