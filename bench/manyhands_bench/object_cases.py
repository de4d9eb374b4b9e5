# SPDX-License-Identifier: BSD-3-Clause
"""The cost of making and freeing communicators, groups, infos, topologies, windows, files and
datatypes, by one thread of each rank and by four.

All threads of a rank share the rank's core and wait for each other. The times thus include the
switches of the core from thread to thread.
"""

from __future__ import annotations

from manyhands_bench.case import Case, Variant, args, ranks
from manyhands_bench.host import Machine


def _threads(machine: Machine) -> tuple[Variant, ...]:
    return (
        Variant("1 thread"),
        Variant("1 of MULTIPLE", arguments=("--multiple",)),
        Variant("4 threads", arguments=("--multiple", "--threads", "4")),
    )


OBJECT_CASES = (
    Case(
        "objects",
        "Making and freeing MPI's objects, time of both; a barrier and a reduction beside them",
        "objects",
        ranks(2),
        args("--batches", "9"),
        variants=_threads,
        interleaved=True,
    ),
)
