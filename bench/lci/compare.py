#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Blocking ping-pong of many tasks: LCI beside MPI with threads, LCI v2, and the provider itself.

All programs take turns, round after round; the output has medians of round trips a second. LCI runs
through the shared memory of the node, and over two providers of libfabric (shm and tcp). MPI and
LCI v2 run with as many threads as LCI has light tasks, up to 64. MPI runs with its default, which
is shared memory, and over TCP. The provider's own figure (fi_pingpong of libfabric's tools, one
task) is the reference for LCI's latency with one task. The numbers need a quiet machine.

With --window N a round has N nonblocking messages and one answer, and the output has messages a
second. With --cycles N each task computes for N cycles before a round. LCI v2 and fi_pingpong run
only with the default window, cycles and bytes.

    bench/lci/compare.py --tasks 1 --window 64              # figure 5.14 of the dissertation
    bench/lci/compare.py --tasks 1 4 16 --window 64         # figure 5.17
    bench/lci/compare.py --tasks 64 --cycles 16384          # figure 5.16

LCI version 2 takes part if --lci-v2 names the prefix of its installation (its option
LCI_NETWORK_BACKENDS=ofi). The program is lci_v2.cpp, over the same providers.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cli"))

import in_group  # noqa: E402
from manyhands_bench.arguments import at_least_one  # noqa: E402
from manyhands_bench.mpis import MpiBuild, find_builds  # noqa: E402

OURS = ROOT / "build" / "bin" / "mh-lci-ping-pong"
PROVIDERS = {"shm": "shm", "tcp": "tcp;ofi_rxm"}
# The transports of LCI, each with the factor by which --trips is multiplied for its runs. Round
# trips through the node's memory are so short that in 20,000 of them the start of the tasks would
# show.
OURS_BY = {"node": 20, "shm": 5, "tcp": 1}
# For each MPI library, the environment variables that restrict it to TCP.
OVER_TCP = {
    "openmpi4": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"},
    "mpich4": {"UCX_TLS": "tcp,self"},
}
LIMIT_S = 60
MOST_THREADS = 64  # most tasks with which MPI and LCI v2 run, because their tasks are threads
FEWEST_TRIPS = 100  # least round trips of a task: with 10, starting 1000 tasks dominates the time


def rate(command: list[str | Path], **environment: str) -> float | None:
    """The rate that the program prints; None if the program did not finish."""
    done = in_group.run(command, environment, LIMIT_S, subprocess.DEVNULL)
    if done is None:
        return None
    found = re.search(r"([\d.]+) (?:round trips|messages)/s", done[1])
    return float(found.group(1)) if found else None


def provider_rate(provider: str, rounds: int) -> float | None:
    command = ["fi_pingpong", "-p", provider, "-e", "rdm", "-S", "64", "-I", str(rounds)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        time.sleep(0.7)  # the server does not report that it listens
        try:
            run = subprocess.run(
                [*command, "127.0.0.1"], capture_output=True, text=True, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return None
        finally:
            server.kill()
    # fi_pingpong's last line has: bytes, sent, acknowledged, total, time, MB/s, us for one way, ...
    words = run.stdout.strip().splitlines()[-1].split() if run.stdout.strip() else []
    return 1e6 / (2 * float(words[6])) if len(words) > 6 else None


def mpi_programs(folder: Path) -> dict[MpiBuild, list[str | Path]]:
    programs: dict[MpiBuild, list[str | Path]] = {}
    for build in find_builds(ROOT).values():
        if build.name not in OVER_TCP:
            continue
        program = folder / build.name
        compiler = build.mpicc.with_name(build.mpicc.name.replace("mpicc", "mpicxx"))
        source = Path(__file__).parent / "mpi_threads.cpp"
        subprocess.run([compiler, "-std=c++20", "-O2", source, "-o", program], check=True)
        programs[build] = [build.mpiexec, "-n", "2", program]
    return programs


def lci_v2_program(prefix: Path, folder: Path) -> list[str | Path]:
    program = folder / "lci-v2"
    command: list[str | Path] = ["g++", "-std=c++20", "-O2", f"-isystem{prefix / 'include'}"]
    command += [Path(__file__).parent / "lci_v2.cpp", f"-L{prefix / 'lib'}", "-llci", "-llct"]
    subprocess.run([*command, "-lfabric", "-o", program], check=True)
    return [prefix / "bin" / "lcrun", "-n", "2", program]


def lci_v2_rate(command: list[str | Path], provider: str) -> float | None:
    libraries = str(Path(command[0]).parents[1] / "lib")
    return rate(command, LCI_ATTR_OFI_PROVIDER_NAME=provider, LD_LIBRARY_PATH=libraries)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: bench/lci/compare.py --rounds 5"
    )
    parser.add_argument(
        "--lci-v2", type=Path, metavar="PREFIX", help="prefix where LCI v2 is installed"
    )
    parser.add_argument("--rounds", type=at_least_one, default=5)
    parser.add_argument(
        "--trips", type=int, default=20_000, help="number of round trips of one run over TCP or MPI"
    )
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 4, 64, 1024])
    parser.add_argument("--bytes", type=int, default=64)
    parser.add_argument("--window", type=int, default=1, help="number of messages in a round")
    parser.add_argument(
        "--cycles", type=int, default=0, help="cycles of computation before a round"
    )
    options = parser.parse_args()
    plain = options.window == 1 and options.cycles == 0 and options.bytes == 64
    tool = plain and shutil.which("fi_pingpong") is not None
    rounds_of = [str(options.window), str(options.cycles)]
    if shutil.which("fi_pingpong") is None:
        print("fi_pingpong (libfabric-bin) is not installed: the provider itself is not measured")
    results: dict[str, list[float | None]] = {}

    def note(name: str, value: float | None) -> None:
        results.setdefault(name, []).append(value)

    with tempfile.TemporaryDirectory() as folder:
        programs = mpi_programs(Path(folder))
        peer = lci_v2_program(options.lci_v2, Path(folder)) if options.lci_v2 else None
        for _ in range(options.rounds):
            for name, full in PROVIDERS.items():
                if tool:
                    note(f"{name} provider, 1", provider_rate(full, options.trips))
            for tasks in options.tasks:
                trips = str(max(FEWEST_TRIPS, options.trips // tasks))
                for name, times in OURS_BY.items():
                    longer = str(max(FEWEST_TRIPS, times * options.trips // tasks))
                    command = [OURS, name, str(tasks), longer, "1", str(options.bytes), "1"]
                    note(f"{name} LCI, {tasks}", rate([*command, *rounds_of]))
                if tasks > MOST_THREADS:
                    continue
                for name, full in PROVIDERS.items():
                    if peer and plain:
                        made = lci_v2_rate([*peer, str(tasks), trips], full)
                        note(f"{name} LCI v2, {tasks}", made)
                for build, program in programs.items():
                    for name, settings in {"shm": {}, "tcp": OVER_TCP[build.name]}.items():
                        environment = {**build.environment(), **settings}
                        words = [str(tasks), trips, str(options.bytes), *rounds_of]
                        made = rate([*program, *words], **environment)
                        note(f"{name} {build.name} threads, {tasks}", made)
    for name, values in results.items():
        done = [value for value in values if value is not None]
        median = f"{statistics.median(done):12,.0f}" if done else f"{'none':>12}"
        missing = len(values) - len(done)
        print(f"{name:28} {median}" + (f"  ({missing} did not finish)" if missing else ""))


if __name__ == "__main__":
    main()
