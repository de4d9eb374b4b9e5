# SPDX-License-Identifier: BSD-3-Clause
"""Facts about processes from /proc: names, parents, users. A process that has ended has no
facts.
"""

from __future__ import annotations

import os
from pathlib import Path

# Parts of the names of launchers and of the processes that launchers put between themselves and a
# rank.
LAUNCHERS = ("mpiexec", "mpirun", "hydra", "prte", "orte", "srun", "slurm")
INTERPRETERS = ("python", "perl", "ruby", "julia", "sh", "bash")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def user(pid: int) -> int | None:
    """The real user of a process, even if its files in /proc belong to root."""
    for line in _read(pid, "status").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return None


def parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def words(pid: int) -> list[str]:
    return [word.decode(errors="replace") for word in _read(pid, "cmdline").split(b"\0") if word]


def name(pid: int) -> str:
    return os.path.basename((words(pid) or [""])[0])


def command(pid: int) -> str:
    """The command line, in which the program and the script of an interpreter are bare file
    names.
    """
    line = words(pid)
    scripts = 2 if line and os.path.basename(line[0]).startswith(INTERPRETERS) else 1
    bare = [os.path.basename(word) or word for word in line[:scripts]]
    return " ".join([*bare, *line[scripts:]])


def launcher(pid: int) -> int | None:
    """The outermost launcher process above a rank; wrappers may stand between launcher and rank."""
    found = None
    above = parent(pid)
    while above > 1:
        if name(above).startswith(LAUNCHERS):
            found = above
        elif found is not None:
            break
        above = parent(above)
    return found


def variable(pid: int, key: str) -> str | None:
    start = key.encode() + b"="
    for entry in _read(pid, "environ").split(b"\0"):
        if entry.startswith(start):
            return entry[len(start) :].decode(errors="replace")
    return None


def hides_descriptors(pid: int) -> bool:
    try:
        os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return True
    return False
