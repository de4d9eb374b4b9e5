# SPDX-License-Identifier: BSD-3-Clause
"""The parts of a case: its arms and its variants.

A *case* is a program with its arguments, run in several *arms* that take turns. The first arm is
the reference, nearly always `plain` (without Manyhands). Most other arms are *helped* (with
Manyhands), and arms differ in settings or arguments. A case may have *variants*, which differ in
compilation, ranks, threads or arguments. Arms are compared within a variant, and the variants of a
case take turns, too. *Interleaved* arms are launched at the same time, and their processes take
turns, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from manyhands_bench import nodes
from manyhands_bench.host import Machine
from manyhands_bench.mpis import Placement

OPENMP = "MH_OPENMP"


@dataclass(frozen=True)
class Arm:
    name: str
    helped: bool = True
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    # The name of a count in the library's summary, or "". If this arm (a way to launch the program)
    # has such a name, it measures the help of third ranks. A launch of at least three ranks has
    # then failed if the count is 0 at its end.
    moved: str = ""
    loops: bool = False  # a launch in which no helper did a part of a loop has failed
    unmarked: bool = False  # compiled with `omp` directives, also in variants with marked loops


OTHERS = "others_bytes"  # bytes that third ranks copied or computed
LENT = "bytes_on_lent_cores"  # bytes that helper threads on lent cores copied
PLAIN = Arm("plain", helped=False)
HELPED = Arm("helped")
HEAP = Arm("heap")  # HELPED, in cases that also have the arm NO_HEAP
NO_HEAP = Arm("no heap", environment={"MH_HEAP": "off"})
# HEAP without a budget. For cases whose buffers are longer than the default lets a block of the
# shared heap be: with HEAP, they would lie in private memory.
WHOLE_HEAP = replace(HEAP, environment={"MH_HEAP": "on"})
MAPPED = Arm("limit", helped=False, arguments=("--mode", "mapped"))
SHARED = Arm("shared", environment={OPENMP: "1"})
OMP = Arm("omp", helped=False, unmarked=True)
MARKED = Arm("marked")


@dataclass(frozen=True)
class Way:
    """A way to compile a program: by the compiler with this name, or by the default compiler of the
    MPI's wrapper ("").
    """

    compiler: str = ""  # gcc | clang | gfortran
    marked: bool = False  # compiled by mhcc or mhfort, with `ws` directives in place of `omp`

    @property
    def name(self) -> str:
        return f"{self.compiler} ws" if self.marked else self.compiler

    def of(self, arm: Arm) -> Way:
        return replace(self, marked=False) if arm.unmarked else self


@dataclass(frozen=True)
class Variant:
    name: str = ""
    way: Way = Way()
    ranks: int | None = None  # None: the number of ranks of the case
    threads: int = 1  # of each rank
    environment: dict[str, str] = field(default_factory=dict)  # of every arm
    arguments: tuple[str, ...] = ()


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
    variants: Callable[[Machine], tuple[Variant, ...]] = lambda machine: (Variant(),)
    crowded: bool = False  # may have more ranks than cores
    disturbed: bool = False  # another program takes a core for 20 ms of every 50 ms
    hosts: int = 1  # the ranks are divided among that many nodes, see nodes.py
    not_under: dict[str, str] = field(default_factory=dict)  # MPI build -> reason to leave it out
    interleaved: bool = False  # arms take turns batch by batch; the program includes turns.h
    simulated: bool = False  # the program simulates all ranks in one process without MPI

    def obstacle(self, machine: Machine, oversubscribe: bool) -> str | None:
        """The reason why no variant of this case makes sense on this machine, or None."""
        if self.numa and machine.numa_nodes < 2:
            return "needs two NUMA nodes"
        if self.hosts > 1 and (why := nodes.obstacle()) is not None:
            return why
        found = [self.lacks(v, machine, oversubscribe) for v in self.variants(machine)]
        return None if None in found else found[0]

    def lacks(self, variant: Variant, machine: Machine, oversubscribe: bool) -> str | None:
        """The reason why this machine has too few cores for a variant, or None."""
        wanted = self.ranks_of(variant, machine) * variant.threads
        if wanted <= machine.cores or oversubscribe or self.crowded or self.simulated:
            return None
        return (
            f"needs {wanted} cores, but only {machine.cores} can be used "
            "(--oversubscribe runs the case anyway)"
        )

    def expects(self, arm: Arm, variant: Variant, machine: Machine) -> str:
        """The count in the summary that a launch of `arm` must not leave at 0; "" for none."""
        return arm.moved if self.ranks_of(variant, machine) > 2 else ""

    def ranks_of(self, variant: Variant, machine: Machine) -> int:
        return self.ranks(machine) if variant.ranks is None else variant.ranks


def args(*words: str) -> Callable[[Machine], tuple[str, ...]]:
    return lambda machine: words


def ranks(count: int) -> Callable[[Machine], int]:
    return lambda machine: count


def all_cores(at_least: int) -> Callable[[Machine], int]:
    return lambda machine: max(at_least, machine.cores)
