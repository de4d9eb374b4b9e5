# SPDX-License-Identifier: BSD-3-Clause
"""What is measured: the table of cases.

A *case* is one program with its arguments, run in several *arms* that take turns: `plain` first
(without Manyhands), then one or more helped ones that differ in settings or arguments. Ratios are
always plain time / arm time, so above 1 means the arm is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from manyhands.benchmarks.host import Machine
from manyhands.benchmarks.mpis import Placement

PAPER_SIZES = "64K,128K,256K,512K,1M,2M,4M,8M"
BAR_SIZES = "8,1K,8K,16K,32K,64K,128K,256K,512K,1M,2M,8M"


@dataclass(frozen=True)
class Arm:
    name: str
    helped: bool = True
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


PLAIN = Arm("plain", helped=False)
HELPED = Arm("helped")
SHARED = Arm("shared", environment={"MH_OPENMP": "1"})
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # the other cores are other ranks'


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    program: str
    ranks: Callable[[Machine], int]
    arguments: Callable[[Machine], tuple[str, ...]]
    arms: tuple[Arm, ...] = (PLAIN, HELPED)
    short: bool = False
    placement: Placement = Placement.CORES
    numa: bool = False  # needs two NUMA nodes
    environment: dict[str, str] = field(default_factory=dict)  # of every arm

    def obstacle(self, machine: Machine, oversubscribe: bool) -> str | None:
        """Why this case says nothing here, or None."""
        if self.numa and machine.numa_nodes < 2:
            return "needs two NUMA nodes"
        wanted = self.ranks(machine)
        if wanted > machine.cores and not oversubscribe:
            return f"needs {wanted} cores, {machine.cores} usable here (--oversubscribe runs it)"
        return None


def _args(*words: str) -> Callable[[Machine], tuple[str, ...]]:
    return lambda machine: words


def _ranks(count: int) -> Callable[[Machine], int]:
    return lambda machine: count


def _all_cores(at_least: int) -> Callable[[Machine], int]:
    return lambda machine: max(at_least, machine.cores)


def _post_access(machine: Machine) -> tuple[str, ...]:
    """Messages of twice the L2 and, memory allowing, twice the last level (90 MB in the paper)."""
    sizes = [2 * machine.cache_bytes.get(2, 1 << 20)]
    beyond = min(2 * machine.last_level_bytes, 256 << 20)
    if 8 * beyond < machine.memory_bytes:
        sizes.append(beyond)
    text = ",".join(str(size) for size in sorted(set(sizes)))
    return ("--touch", "--no-limit", "--batches", "9", "--sizes", text)


def _strategy(name: str) -> Arm:
    return Arm(name, environment={"MH_STRATEGY": name, "MH_CHUNK": "65536"})


def _chunk(kib: int) -> Arm:
    return Arm(f"{kib} KB", environment={"MH_CHUNK": str(kib << 10)})


CASES = (
    Case(
        "latency",
        "One-way latency of 8 bytes",
        "latency",
        _ranks(2),
        _args(),
        short=True,
    ),
    Case(
        "pingpong",
        "PingPong of two ranks, blocking",
        "pingpong",
        _ranks(2),
        _args("--sizes", BAR_SIZES),
        short=True,
    ),
    Case(
        "collectives",
        "Small blocking collectives, time a call",
        "collectives",
        _all_cores(2),
        _args("--sizes", "8"),
        short=True,
    ),
    Case(
        "collectives-large",
        "Large blocking collectives, time a call",
        "collectives",
        _all_cores(2),
        _args("--sizes", "64K,1M,8M", "--batches", "7", "--batch-ms", "10"),
    ),
    Case(
        "nonblocking",
        "PingPong with MPI_Isend, MPI_Irecv, MPI_Wait",
        "pingpong",
        _ranks(2),
        _args("--mode", "nonblocking", "--sizes", BAR_SIZES),
    ),
    Case(
        "polling",
        "PingPong that polls MPI_Test",
        "pingpong",
        _ranks(2),
        _args("--mode", "test", "--sizes", BAR_SIZES),
    ),
    Case(
        "exchange",
        "Both directions at once, MPI_Waitall",
        "pingpong",
        _ranks(2),
        _args("--mode", "exchange", "--sizes", PAPER_SIZES),
    ),
    Case(
        "fresh",
        "PingPong of data just written, and read on arrival",
        "pingpong",
        _ranks(2),
        _args("--fill", "--touch", "--sizes", PAPER_SIZES),
    ),
    Case(
        "cold",
        "PingPong through 256 MB of buffers (cold caches)",
        "pingpong",
        _ranks(2),
        _args("--cold", "256M", "--sizes", "64K,512K,8M"),
    ),
    Case(
        "helpers",
        "PingPong of two ranks, all other cores in MPI_Barrier",
        "pingpong",
        _all_cores(3),
        _args("--touch", "--sizes", PAPER_SIZES),
    ),
    Case(
        "strategies",
        "Stealing strategies, 64 KB chunks, all other cores in MPI_Barrier",
        "pingpong",
        _all_cores(3),
        _args("--touch", "--no-limit", "--sizes", PAPER_SIZES),
        arms=(PLAIN, _strategy("localized"), _strategy("mixed"), _strategy("throughput")),
    ),
    Case(
        "strategies-numa",
        "Stealing strategies, the pair on two NUMA nodes",
        "pingpong",
        _all_cores(3),
        _args("--touch", "--no-limit", "--sizes", PAPER_SIZES),
        arms=(PLAIN, _strategy("localized"), _strategy("mixed"), _strategy("throughput")),
        placement=Placement.NUMA,
        numa=True,
    ),
    Case(
        "chunks",
        "Static chunk sizes against the on-demand table",
        "pingpong",
        _all_cores(2),
        _args("--no-limit", "--sizes", PAPER_SIZES),
        arms=(PLAIN, *(_chunk(kib) for kib in (16, 32, 64, 128, 256)), Arm("on-demand")),
    ),
    Case(
        "order",
        "Claim order and the time of the receiver's first pass over the data",
        "pingpong",
        _all_cores(2),
        _post_access,
        arms=(
            PLAIN,
            Arm("random", arguments=("--access", "random")),
            Arm("lo-to-hi", arguments=("--access", "lo-to-hi")),
        ),
    ),
    Case(
        "waiters",
        "A pair moves 8 MB while the others enter a barrier",
        "waiters",
        _all_cores(3),
        _args(),
    ),
    Case(
        "waiters-late",
        "The same, the others arrive 300 us late in an allreduce",
        "waiters",
        _all_cores(3),
        _args("--wait", "allreduce", "--late", "300"),
    ),
    Case(
        "waiters-self",
        "One rank copies 8 MB to itself while the other waits in a barrier",
        "waiters",
        _ranks(2),
        _args("--self"),
    ),
    Case(
        "loaded-latency",
        "8 bytes between two ranks while two others move 4 MB messages",
        "latency",
        _ranks(4),
        _args("--load", "4M", "--batches", "20"),
    ),
    Case(
        "overhead",
        "Cost of checking, and of a steal of two small chunks",
        "pingpong",
        _all_cores(2),
        _args("--no-limit", "--sizes", "8,256,4K,8K,16K,32K"),
        arms=(
            PLAIN,
            Arm("check", environment={"MH_THRESHOLD": str(1 << 30)}),
            Arm("check+steal", environment={"MH_THRESHOLD": "8192", "MH_CHUNK": "4096"}),
        ),
    ),
    Case(
        "loops",
        "Unbalanced OpenMP loops: first start to last end",
        "loops",
        _all_cores(2),
        _args(),
        arms=(PLAIN, SHARED),
        environment=ONE_THREAD,
    ),
    Case(
        "loops-balanced",
        "OpenMP loops of equal work, nothing to gain",
        "loops",
        _all_cores(2),
        _args("--balanced"),
        arms=(PLAIN, SHARED),
        environment=ONE_THREAD,
    ),
    Case(
        "loops-empty",
        "An OpenMP loop that nobody joins",
        "loops",
        _all_cores(2),
        _args("--empty"),
        arms=(PLAIN, SHARED),
        environment=ONE_THREAD,
    ),
    Case(
        "streams",
        "What memory can do, by number of copying ranks",
        "streams",
        _all_cores(2),
        _args(),
        arms=(PLAIN,),
    ),
)


def select(only: list[str], short: bool) -> list[Case]:
    """The cases asked for by name, else the short set, else all. Unknown names: ValueError."""
    by_name = {case.name: case for case in CASES}
    unknown = [name for name in only if name not in by_name]
    if unknown:
        raise ValueError(f"no case {', '.join(unknown)}; there are {', '.join(by_name)}")
    if only:
        return [by_name[name] for name in only]
    return [case for case in CASES if case.short or not short]
