#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Blocking ping-pong of many tasks: LCI beside MPI with threads and the provider itself.

All take turns, round after round; printed are medians of round trips a second. MPI runs with as
many threads as LCI has light tasks, up to 64. The provider's own figure (fi_pingpong, one task) is
what LCI's single-task latency is to be compared with. Needs a quiet machine to mean anything.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "build" / "bin" / "mh-lci-ping-pong"
PROVIDERS = {"shm": "shm", "tcp": "tcp;ofi_rxm"}
LIMIT_S = 60


def rate(command: list[str | Path]) -> float | None:
    """Round trips a second, as the program prints them; None if it did not finish."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r"([\d.]+) round trips/s", run.stdout)
    return float(found.group(1)) if found else None


def provider_rate(provider: str, rounds: int) -> float | None:
    command = ["fi_pingpong", "-p", provider, "-e", "rdm", "-S", "64", "-I", str(rounds)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        time.sleep(0.7)  # it has no way to tell that it listens
        try:
            run = subprocess.run(
                [*command, "127.0.0.1"], capture_output=True, text=True, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return None
        finally:
            server.kill()
    # bytes, sent, acknowledged, total, time, MB/s, us for one way, ...
    words = run.stdout.strip().splitlines()[-1].split() if run.stdout.strip() else []
    return 1e6 / (2 * float(words[6])) if len(words) > 6 else None


def mpi_programs(folder: Path) -> dict[str, list[str | Path]]:
    programs: dict[str, list[str | Path]] = {}
    for name in ("mpich", "openmpi"):
        compiler, launcher = shutil.which(f"mpicxx.{name}"), shutil.which(f"mpiexec.{name}")
        if compiler is None or launcher is None:
            continue
        program = folder / name
        source = Path(__file__).parent / "mpi_threads.cpp"
        subprocess.run([compiler, "-std=c++20", "-O2", source, "-o", program], check=True)
        programs[name] = [launcher, "-n", "2", program]
    return programs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: bench/lci/compare.py --rounds 5"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trips", type=int, default=20_000, help="round trips of one run")
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 4, 64, 1024])
    options = parser.parse_args()
    results: dict[str, list[float | None]] = {}

    def note(name: str, value: float | None) -> None:
        results.setdefault(name, []).append(value)

    with tempfile.TemporaryDirectory() as folder:
        programs = mpi_programs(Path(folder))
        for _ in range(options.rounds):
            for name, full in PROVIDERS.items():
                if shutil.which("fi_pingpong"):
                    note(f"{name} provider, 1", provider_rate(full, options.trips))
            for tasks in options.tasks:
                trips = str(max(1, options.trips // tasks))
                for name in PROVIDERS:
                    note(f"{name} LCI, {tasks}", rate([OURS, name, str(tasks), trips]))
                for name, command in programs.items():
                    if tasks <= 64:
                        note(f"{name} threads, {tasks}", rate([*command, str(tasks), trips]))
    for name, values in results.items():
        done = [value for value in values if value is not None]
        median = f"{statistics.median(done):12,.0f}" if done else f"{'none':>12}"
        missing = len(values) - len(done)
        print(f"{name:24} {median}" + (f"  ({missing} did not finish)" if missing else ""))


if __name__ == "__main__":
    main()
