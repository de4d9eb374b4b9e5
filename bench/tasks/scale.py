# SPDX-License-Identifier: BSD-3-Clause
"""The simulated runs behind docs/results/tasks.md, and the files with their output.

Each run is a call of mh-simulate whose lines go to OUT/NAME.jsonl. A run whose file exists is not
repeated. `results.py` calls this module and writes the page.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from manyhands.simulating.lines import Line


@dataclass(frozen=True)
class Run:
    """A call of mh-simulate. `words` follow the subcommand."""

    name: str
    words: tuple[str, ...]


def _iterations(problem: str, machine: str, cores: int, scheme: str, count: int, *more: str) -> Run:
    name = "-".join((problem, machine, str(cores), scheme, *(word.strip("-") for word in more)))
    words = ["run", "--problem", problem, "--machine", machine, "--cores", str(cores)]
    words += ["--scheme", scheme, "--iterations", str(count), *more]
    return Run(name, tuple(words))


def runs() -> Iterator[Run]:
    """All runs, those that take seconds first."""
    for cores in (2400, 4800, 9600, 19200, 38400):
        words = ("balancers", "--problem", "hf-be256", "--cores", str(cores))
        yield Run(f"table3-{cores}", words)
    yield Run("table3-76800-cap", ("balancers", "--problem", "hf-be256", "--cores", "76800"))
    no_cap = ("balancers", "--problem", "hf-be256", "--cores", "76800", "--cap", "0")
    yield Run("table3-76800-no-cap", no_cap)
    for cores in (2400, 4800, 9600, 19200, 38400):
        yield _iterations("hf-be256", "hopper", cores, "retain", 5)
        yield _iterations("hf-be256", "hopper", cores, "plb-tree", 5, "--seeded", "1")
    for cores in (9600, 19200, 38400, 76800):
        yield _iterations("hf-be512", "hopper", cores, "retain", 5)
    for cores in (9600, 76800):
        yield _iterations("tce", "hopper", cores, "retain", 5)
        yield _iterations("tce", "hopper", cores, "plb-tree", 5, "--seeded", "1")
    yield _iterations("hf-be512-20", "intrepid", 163840, "retain", 4)
    yield _iterations("hf-be512", "hopper", 76800, "plb-tree", 5, "--seeded", "1")
    yield _iterations("hf-be256", "hopper", 9600, "retain", 2, "--all", "1")
    yield _iterations("hf-be512-20", "titan", 128000, "retain", 5)
    for cores in (9600, 38400):
        yield _iterations("hf-be256", "hopper", cores, "retain", 5, "--server", "1")
    yield _iterations("hf-be512-20", "intrepid", 1000000, "retain", 1)


def _call(words: list[str], out: Path) -> Line:
    """Runs the program with its output in a file. Returns the cost of the call."""
    start = time.monotonic()
    with out.open("w") as file:
        process = subprocess.Popen(words, stdout=file)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, words)
    return {
        "kind": "cost",
        "wall_s": round(time.monotonic() - start, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "memory_mb": round(usage.ru_maxrss / 1024),
    }


def _run(program: Path, out: Path, run: Run) -> None:
    file = out / f"{run.name}.jsonl"
    if file.exists():
        return
    part = file.with_suffix(".part")
    cost = _call([str(program), *run.words], part)
    with part.open("a") as lines_of_run:
        lines_of_run.write(json.dumps(cost) + "\n")
    part.rename(file)
    print(f"{run.name}: {cost['cpu_s']:.0f} s, {cost['memory_mb']} MB", flush=True)


def run_all(program: Path, out: Path, jobs: int) -> None:
    """Runs what has no file in `out` yet, `jobs` simulations at a time, one thread each."""
    out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for done in as_completed([pool.submit(_run, program, out, run) for run in runs()]):
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # begins no further simulation
            raise


def lines(out: Path, name: str) -> list[Line]:
    """The lines of a run, or none if the run has no file."""
    file = out / f"{name}.jsonl"
    if not file.exists():
        return []
    return [json.loads(text) for text in file.read_text().splitlines()]
