# SPDX-License-Identifier: BSD-3-Clause
"""The running MPI jobs of this user on this node, and the job that the user names."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manyhands.live import processes


@dataclass(frozen=True)
class Job:
    """The part of an MPI job that is on this node.

    `fd` is a descriptor of process `pid` for the node segment, which mh-top opens through /proc.
    """

    pid: int
    fd: int
    refused: str | None = None  # the reason why mh-top does not read the segment
    age_s: float = 0
    ranks: list[int] = field(default_factory=list)  # of MPI_COMM_WORLD
    pids: list[int] = field(default_factory=list)
    program: str = ""
    launcher: int | None = None
    launcher_name: str = ""
    batch_job: str | None = None

    def is_meant_by(self, word: str) -> bool:
        numbers = {self.pid, self.launcher, *self.pids}
        return word == self.batch_job or (word.isdecimal() and int(word) in numbers)


@dataclass(frozen=True)
class Search:
    jobs: list[Job]
    unreadable: int  # processes of this user whose descriptors the kernel hides


def _job(line: dict[str, Any]) -> Job:
    pid = line["pid"]
    launcher = processes.launcher(pid)
    return Job(
        pid=pid,
        fd=line["fd"],
        refused=line.get("refused"),
        age_s=line.get("age_s", 0),
        ranks=line.get("ranks", []),
        pids=line.get("pids", []),
        program=processes.command(pid),
        launcher=launcher,
        launcher_name=processes.name(launcher) if launcher else "",
        batch_job=processes.variable(pid, "SLURM_JOB_ID"),
    )


def find(reader: Path) -> Search:
    """Finds all MPI jobs of this user on this node, the oldest first."""
    done = subprocess.run([reader, "find"], stdout=subprocess.PIPE, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    jobs = [_job(line) for line in lines if "pid" in line]
    unreadable = sum(line.get("unreadable", 0) for line in lines)
    return Search(sorted(jobs, key=lambda job: -job.age_s), unreadable)


def why_not(word: str) -> str:
    """The reason why `word`, which the user gave, names no job."""
    if not word.isdecimal() or not processes.exists(int(word)):
        return f"there is no process {word} on this node, and no batch job {word} with Manyhands"
    pid = int(word)
    if processes.user(pid) != os.geteuid():
        return f"process {pid} belongs to another user: mh top shows only your own jobs"
    if processes.hides_descriptors(pid):
        return (
            f"the kernel hides the file descriptors of process {pid}: its program has special "
            "rights (set-user-ID, capabilities), or runs in another container"
        )
    return (
        f"process {pid} is not a rank or the launcher of a visible job; a job is visible between "
        "MPI_Init and MPI_Finalize, with at least two ranks on this node and without MH_ENABLE=0"
    )
