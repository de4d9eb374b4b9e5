#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The parts of a message of LCI in one run, and their sum beside the measured latency.

Table 5.2 of the dissertation on LCI adds up the network layer, the scheduling of a light task
(table 5.1: a switch and a signal), a packet of the pool and the matching. The parts take turns,
round after round. The output has medians in nanoseconds. The network layer is fi_pingpong, with the
provider that LCI uses. The numbers need a quiet machine.

    bench/lci/parts.py --rounds 5
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "cli"), str(HERE)]

from compare import PROVIDERS, provider_rate, rate  # noqa: E402
from manyhands_bench.arguments import at_least_one  # noqa: E402

BIN = ROOT / "build" / "bin"
TRIPS = 100_000


def scheduling(case: str) -> float:
    run = subprocess.run([BIN / "mh-ult-manyhands", case], capture_output=True, text=True)
    return float(run.stdout)


def structures() -> dict[str, float]:
    """The time of a packet (take and give) and of a match (insert and delete), with one thread."""
    run = subprocess.run(
        [BIN / "mh-lci-structures", "1"], capture_output=True, text=True, check=True
    )
    times = {}
    for name, line in (("packet", "pool manyhands"), ("matching", "table manyhands")):
        found = re.search(rf"^{line} +([\d.]+) \+ +([\d.]+)", run.stdout, re.MULTILINE)
        assert found is not None, run.stdout
        times[name] = float(found[1]) + float(found[2])
    return times


def half_trip(trips_a_second: float | None) -> float:
    return 5e8 / trips_a_second if trips_a_second else float("nan")


def one_round() -> dict[str, float]:
    times = {"switch": scheduling("yield"), "signal": scheduling("signal-same"), **structures()}
    for name, full in PROVIDERS.items():
        times[f"network, {name}"] = half_trip(provider_rate(full, TRIPS))
    for name in ("node", *PROVIDERS):
        command = [BIN / "mh-lci-ping-pong", name, "1", str(TRIPS), "1", "64", "1"]
        times[f"LCI, {name}"] = half_trip(rate(command))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: bench/lci/parts.py --rounds 5"
    )
    parser.add_argument("--rounds", type=at_least_one, default=5)
    options = parser.parse_args()
    if shutil.which("fi_pingpong") is None:
        sys.exit("fi_pingpong (libfabric-bin) is not installed")
    rounds = [one_round() for _ in range(options.rounds)]
    medians = {name: statistics.median(times[name] for times in rounds) for name in rounds[0]}
    for name, ns in medians.items():
        print(f"{name:16} {ns:10,.1f} ns")
    own = sum(medians[name] for name in ("signal", "packet", "matching"))
    for name in PROVIDERS:
        network, measured = medians[f"network, {name}"], medians[f"LCI, {name}"]
        together = f"network {network:,.0f} + parts {own:,.0f} = {network + own:,.0f} ns"
        print(f"{name}: {together}; measured {measured:,.0f} ns")


if __name__ == "__main__":
    main()
