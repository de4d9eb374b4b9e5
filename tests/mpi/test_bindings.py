# SPDX-License-Identifier: BSD-3-Clause
"""Programs run right with ranks bound and limited as on real sites: own or shared cores, pid
namespaces, resource limits.

A line of shell binds or limits each rank before the program starts. If the program fails plain too
(unshare is not permitted, a library needs more memory), the test is skipped.
scattered_data_arrives_while_its_sender_is_in_the_library.c covers a cpuset for each rank and a
limit on threads.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness.launch import QUICK, TIMED_OUT, Arm, compiled, run
from manyhands_bench.mpis import MpiBuild

SOURCE = Path(__file__).parent / "all_kinds_of_calls.c"
LIMIT_S = 30

pytestmark = [
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores"),
    pytest.mark.under(*QUICK),
]


@dataclass(frozen=True)
class Binding:
    line: str  # $r is the rank, $a and $b are two cores; the program is appended
    by_rendezvous: bool = True  # some long messages go by rendezvous
    attempts: int = 1  # if ranks share a pid, MPICH 4 hangs in a quarter of all plain runs


BINDINGS = {
    "a core each": Binding("[ $r = 0 ] && c=$a || c=$b; exec taskset -c $c"),
    "both on one core": Binding("exec taskset -c $a", by_rendezvous=False),
    "two threads of one core": Binding("exec taskset -c $a,$b"),
    "one may go where the other is": Binding("[ $r = 0 ] && c=$a || c=$a,$b; exec taskset -c $c"),
    "a pid namespace each": Binding(
        "exec unshare --pid --fork --kill-child --mount-proc", by_rendezvous=False, attempts=10
    ),
    "little address space": Binding("ulimit -v 700000; exec env"),
    "no locked memory": Binding("ulimit -l 0; exec env"),
    "small stacks": Binding("ulimit -s 256; exec env"),
    "unlimited stacks": Binding("ulimit -s unlimited; exec env"),
    "few files": Binding("ulimit -n 48; exec env"),
}


@pytest.mark.parametrize("name", BINDINGS)
def test_everything_arrives(mpi: MpiBuild, helped: Arm, name: str) -> None:
    binding = BINDINGS[name]
    a, b = sorted(os.sched_getaffinity(0))[:2]
    line = f'r=${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}; a={a}; b={b}; {binding.line} "$@"'
    program = ["sh", "-c", line, "sh", str(compiled(mpi, "all_kinds_of_calls", [SOURCE]))]
    for _ in range(binding.attempts):
        done = run(
            mpi,
            helped,
            2,
            program,
            {"MH_THRESHOLD": "64K", "MH_EXCHANGE_THRESHOLD": "64K"},
            LIMIT_S / binding.attempts,
        )
        if done.code != TIMED_OUT:
            break
    if done.code != 0 and run(mpi, Arm("plain"), 2, program, {}, LIMIT_S).code != 0:
        pytest.skip("does not run plain, either")
    done.expect("PASS")
    assert done.summary is not None, done.told()
    if binding.by_rendezvous:
        assert done.summary["total"]["messages_by_rendezvous"] > 0, done.told()
