#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Messages of unknown size: LCI's queue beside MPI with probes, and MPI that knows the size.

Measures the latency by size, and the rate of 64 messages in a row (figure 3.2 of the dissertation
on LCI). The arms take turns, round after round. The table has medians in microseconds for a
message: half of a round trip, or the time from message to message. The benchmark needs a quiet
machine and the programs in build/bin.

    bench/lci/unknown_sizes.py --rounds 5
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "cli"), str(HERE)]

from compare import OVER_TCP, PROVIDERS, rate  # noqa: E402
from manyhands_bench.arguments import at_least_one  # noqa: E402
from manyhands_bench.mpis import MpiBuild, find_builds  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

OURS = ROOT / "build" / "bin" / "mh-lci-queue-messages"
SIZES = (8, 64, 512, 4096, 32768)
BYTES_OF_A_RUN = 200_000_000
MOST_MESSAGES = 100_000


def compiled(build: MpiBuild, folder: Path) -> Path:
    program = folder / build.name
    compiler = build.mpicc.with_name(build.mpicc.name.replace("mpicc", "mpicxx"))
    skip = ["-DMPICH_SKIP_MPICXX", "-DOMPI_SKIP_MPICXX"]
    source = HERE / "mpi_messages.cpp"
    subprocess.run([compiler, "-std=c++20", "-O2", *skip, source, "-o", program], check=True)
    return program


Arm = tuple[list[str | Path], dict[str, str]]


def arms(folder: Path) -> dict[str, Arm]:
    """The arms by name. An arm is a command without its numbers, and an environment."""
    made: dict[str, Arm] = {f"queue, {name}": ([OURS, name], {}) for name in ("node", *PROVIDERS)}
    for build in find_builds(ROOT).values():
        if build.name not in OVER_TCP:
            continue
        program = compiled(build, folder)
        for how in ("probe", "known"):
            for way, settings in (("shm", {}), ("tcp", OVER_TCP[build.name])):
                command: list[str | Path] = [build.mpiexec, "-n", "2", program, how]
                environment = {**build.environment(), **settings}
                made[f"{build.name} {how}, {way}"] = (command, environment)
    return made


def microseconds(arm: Arm, size: int, window: int) -> float | None:
    command, environment = arm
    rounds = min(MOST_MESSAGES, BYTES_OF_A_RUN // size) // (window if window > 1 else 2)
    numbers = [str(max(rounds, 1)), str(size), str(window)]
    found = rate([*command, *numbers], **environment)
    return None if found is None else (1e6 if window > 1 else 5e5) / found


def table(title: str, shown: dict[str, list[float | None]]) -> Table:
    made = Table(title=title, title_justify="left")
    made.add_column("us a message")
    for size in SIZES:
        made.add_column(f"{size} B", justify="right")
    for name, values in shown.items():
        made.add_row(name, *("-" if value is None else f"{value:.2f}" for value in values))
    return made


def median_of(samples: list[float | None]) -> float | None:
    done = [sample for sample in samples if sample is not None]
    return statistics.median(done) if done else None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: bench/lci/unknown_sizes.py --rounds 3"
    )
    parser.add_argument("--rounds", type=at_least_one, default=5)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if not OURS.exists():
        sys.exit(f"{OURS} is not built: run cmake --build build")
    out = Console(width=100)
    with tempfile.TemporaryDirectory() as folder:
        chosen = arms(Path(folder))
        for title, window in (("latency", 1), ("64 messages in a row", 64)):
            keys = [(name, size) for name in chosen for size in SIZES]
            samples: dict[tuple[str, int], list[float | None]] = {key: [] for key in keys}
            for turn in range(options.rounds):
                out.print(f"{title}: round {turn + 1} of {options.rounds}", style="dim")
                for name, arm in chosen.items():
                    for size in SIZES:
                        samples[name, size].append(microseconds(arm, size, window))
            rows = {name: [median_of(samples[name, size]) for size in SIZES] for name in chosen}
            out.print(table(title, rows))


if __name__ == "__main__":
    main()
