# SPDX-License-Identifier: BSD-3-Clause
"""Finds what a run must not leave behind: processes, and files in /dev/shm that no process maps.

A variable in the environment marks the processes of a run. Forks and daemons inherit the variable,
so a process that has left the launcher's process group is found, too. A new file in /dev/shm that
stays is a *leftover*, unless a living process maps the file or has its number in the file's name.
Other jobs on the machine have their own files. Some MPI libraries leave files when a rank is
killed, even without help; files with the names of MPI libraries are tolerated in every run.
"""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

MARK = "MANYHANDS_TEST_RUN"
SHM = Path("/dev/shm")
GRACE_S = 5.0
# LLVM's OpenMP makes a shared file with the pid of its process in the name. The process maps the
# file for a short time only, so a living process owns the file even if it does not map it.
OF_A_PROCESS = re.compile(r"^__KMP_REGISTERED_LIB_(\d+)_")
# Names of the shared files that MPI libraries make: segments of Open MPI (vader, sm), MPICH and
# UCX, and PMIx's store.
OF_THE_MPI = re.compile(
    r"^(vader_segment|sm_segment|mpich_|mpich_shar|ucx_shm|pmix|psm2|osc_|sm_coll|dstore)"
)


def processes(mark: str) -> dict[int, str]:
    """Returns the living processes of the run, with their command lines."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z":
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                found[int(entry.name)] = line
        except (OSError, ValueError):
            continue
    return found


def ranks(mark: str, program: str, count: int) -> list[int]:
    """Waits for `count` processes whose program has this text in its path; returns them, oldest
    first."""
    end = time.monotonic() + 15
    while True:
        # A process in the middle of fork() or exit() has no command line, and is not counted.
        lines = {pid: line.split() for pid, line in processes(mark).items()}
        pids = sorted(pid for pid, words in lines.items() if words and program in words[0])
        if len(pids) >= count or time.monotonic() >= end:
            break
        time.sleep(0.05)
    assert len(pids) == count, f"ranks: {pids}"
    return pids


def surviving(mark: str) -> dict[int, str]:
    """Returns the processes that survive the grace time."""
    end = time.monotonic() + GRACE_S
    while (alive := processes(mark)) and time.monotonic() < end:
        time.sleep(0.02)
    return alive


def end_processes(mark: str) -> None:
    """Ends the processes of the run, by pid."""
    for pid in processes(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def segments() -> set[str]:
    return {entry.name for entry in SHM.iterdir()}


def _mapped() -> set[str]:
    names: set[str] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "maps").read_text(errors="replace")
        except OSError:
            continue
        names.update(re.findall(r"/dev/shm/(\S+)", text))
    return names


def _has_living_owner(name: str) -> bool:
    owner = OF_A_PROCESS.match(name)
    return owner is not None and Path("/proc", owner[1]).exists()


def left_segments(before: set[str]) -> set[str]:
    """Returns the new files that no process owns after the grace time."""
    end = time.monotonic() + GRACE_S
    while new := {name for name in segments() - before if not OF_THE_MPI.match(name)}:
        new -= {name.split("/")[0] for name in _mapped()}
        new = {name for name in new if not _has_living_owner(name)}
        if not new or time.monotonic() >= end:
            return new
        time.sleep(0.05)
    return set()
