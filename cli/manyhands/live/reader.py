# SPDX-License-Identifier: BSD-3-Clause
"""Runs the program mh-top on one MPI job and yields its lines."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from manyhands.live.jobs import Job


@dataclass(frozen=True)
class Ended:
    """The job is over, or mh-top cannot read its segment any more."""

    why: str


Interval = dict[str, Any]  # docs/top.md


def parse(line: str) -> Interval | Ended:
    read: Interval = json.loads(line)
    return Ended(read["ended"]) if "ended" in read else read


@contextlib.contextmanager
def watching(reader: Path, job: Job, interval_s: float, count: int = 0) -> Iterator[IO[str]]:
    """Runs mh-top and yields its output: a line for each interval, `count` times (0: until the job
    ends).
    """
    words = [str(reader), "watch", str(job.pid), str(job.fd), str(round(interval_s * 1000))]
    process = subprocess.Popen([*words, str(count)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()  # mh-top only reads, so nothing is left half done
        process.wait()
        process.stdout.close()


def once(reader: Path, job: Job, interval_s: float) -> Interval | Ended:
    with watching(reader, job, interval_s, 1) as lines:
        line = lines.readline()
    return parse(line) if line else Ended("mh-top ended unexpectedly")
