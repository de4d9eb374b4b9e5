# SPDX-License-Identifier: BSD-3-Clause
"""`mh run --openmp-threads`: shares the static OpenMP loops of a program by the threads of its
ranks.

A program may ask for its number of threads before `MPI_Init`, and size its arrays by the answer.
Therefore the number is set before the program starts, as OMP_NUM_THREADS, and never changes.
"""

from __future__ import annotations

import os

from manyhands import say

AUTO = "auto"
# Threads of a team for each core that may work on its loops: the rank's own core and those that may
# be lent to it. At the end of a loop each core runs its last thread, so it waits, on average, for
# half of a thread's work: half of 1/16, 3 % of the work of a core.
FOR_EACH_CORE = 16
MOST = 256  # the largest team with barriers (TeamFibres::kMost in src/openmp/fibres.hpp)


def cores(in_rank: bool) -> int:
    """The cores of this machine that the ranks of a job may use. A launcher may have bound the
    calling process to a part of them if it is a rank.
    """
    return (os.cpu_count() or 1) if in_rank else len(os.sched_getaffinity(0))


def number(word: str, in_rank: bool) -> int:
    if word == AUTO:
        return min(FOR_EACH_CORE * cores(in_rank), MOST)
    if not word.isdecimal() or int(word) == 0:
        say.fail(f"--openmp-threads takes a number or {AUTO}, not {word!r}", say.USAGE)
    return int(word)


def settings(word: str, in_rank: bool) -> dict[str, str]:
    """The environment of the ranks, from the value of --openmp-threads."""
    return {"MH_OPENMP": "static", "OMP_NUM_THREADS": str(number(word, in_rank))}
