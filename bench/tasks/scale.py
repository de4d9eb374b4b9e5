# SPDX-License-Identifier: BSD-3-Clause
"""The simulated runs behind docs/results/tasks.md: what runs, and the files of its lines.

Each run is a call of mh-simulate whose lines go to OUT/NAME.jsonl. A run whose file exists is not
repeated. `results.py` calls this module and writes the page.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
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


def run_all(program: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for run in runs():
        file = out / f"{run.name}.jsonl"
        if file.exists():
            continue
        start = time.monotonic()
        done = subprocess.run(
            [str(program), *run.words], capture_output=True, text=True, check=True
        )
        part = file.with_suffix(".part")
        part.write_text(done.stdout)
        part.rename(file)
        print(f"{run.name}: {time.monotonic() - start:.0f} s", flush=True)


def lines(out: Path, name: str) -> list[Line]:
    """The lines of a run, or none if it has not been made."""
    file = out / f"{name}.jsonl"
    if not file.exists():
        return []
    return [json.loads(text) for text in file.read_text().splitlines()]
