# SPDX-License-Identifier: BSD-3-Clause
"""Total times of programs from Debian's packages: plain, helped, and helped with a shared heap.

.venv/bin/python bench/programs/compare.py --rounds 9

LAMMPS (melt), HPCC and NWChem (water), two ranks on a core each, all arms in turn, the launcher's
start and end included; medians, and how many times as fast. Needs a quiet machine, build/lib, and
the packages lammps, hpcc, nwchem-mpich, nwchem-openmpi; what is missing is said and left out.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from manyhands_bench.launch import clean_environment
from manyhands_bench.mpis import MpiBuild, Placement, find_builds
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "programs"))
sys.path.insert(0, str(ROOT / "tests"))
import test_hpcc  # noqa: E402  (the tests know the input files)
import test_lammps  # noqa: E402
import test_nwchem  # noqa: E402

LIBRARIES = ROOT / "build" / "lib"
FRONT, HEAP = LIBRARIES / "libmanyhands.so", LIBRARIES / "libmanyhands-heap.so"
ARMS = {
    "plain": {},
    "helped": {"LD_PRELOAD": str(FRONT)},
    "heap": {"LD_PRELOAD": f"{HEAP}:{FRONT}", "MH_HEAP": "on"},
}
RANKS = 2
LIMIT_S = 300


def write_inputs(folder: Path) -> None:
    if test_lammps.EXAMPLE.exists():
        test_lammps.melt(folder, 28, 100)
    problem = test_hpcc.INPUT.format(size=4000, rows=1, columns=RANKS, broadcast=1)
    (folder / "hpccinf.txt").write_text(problem)
    (folder / "water.nw").write_text(test_nwchem.INPUT.format(folder=folder))


@dataclass(frozen=True)
class Program:
    name: str
    mpi: str
    words: tuple[str, ...]


PROGRAMS = (
    Program("LAMMPS melt", "openmpi4", ("lmp", "-log", "none", "-in", "in.melt")),
    Program("HPCC", "openmpi4", ("hpcc",)),
    Program("NWChem water", "mpich4", ("nwchem.mpich", "water.nw")),
    Program("NWChem water", "openmpi4", ("nwchem.openmpi", "water.nw")),
)


def seconds(program: Program, mpi: MpiBuild, arm: dict[str, str]) -> float | None:
    """None if it failed."""
    settings = [f"{key}={value}" for key, value in arm.items()]
    command = [*mpi.launch(RANKS, Placement.CORES), "env", *settings, *program.words]
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(Path(folder))
        start = time.monotonic()
        done = subprocess.run(
            command,
            cwd=folder,
            env={**clean_environment(), **mpi.environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
        )
        took = time.monotonic() - start
    return took if done.returncode == 0 else None


def row(program: Program, times: dict[str, list[float | None]]) -> list[str]:
    cells = [program.name, program.mpi]
    for name, of_arm in times.items():
        ended = [own for own in of_arm if own is not None]
        pairs = [
            plain / own for plain, own in zip(times["plain"], of_arm, strict=True) if plain and own
        ]
        words = [f"{statistics.median(ended):.2f} s"] if ended else []
        if pairs and name != "plain":
            words.append(f"{statistics.median(pairs):.2f} times")
        if len(ended) < len(of_arm):
            words.append(f"{len(of_arm) - len(ended)} failed")
        cells.append(", ".join(words))
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="example: bench/programs/compare.py --rounds 9"
    )
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least one")
    for library in (FRONT, HEAP):
        if not library.exists():
            sys.exit(f"{library} is not built: run make build")
    builds = find_builds(ROOT)
    table = Table(title="total time (of plain: how many times as fast)", title_justify="left")
    for heading in ("program", "MPI", *ARMS):
        table.add_column(heading)
    for program in PROGRAMS:
        if shutil.which(program.words[0]) is None or program.mpi not in builds:
            print(f"{program.name}, {program.mpi}: {program.words[0]} is not installed, left out")
            continue
        times: dict[str, list[float | None]] = {arm: [] for arm in ARMS}
        for turn in range(options.rounds):
            print(f"{program.name}, {program.mpi}: {turn + 1}/{options.rounds}", flush=True)
            for arm, settings in ARMS.items():
                times[arm].append(seconds(program, builds[program.mpi], settings))
        table.add_row(*row(program, times))
    if table.row_count:
        Console(width=100).print(table)


if __name__ == "__main__":
    main()
