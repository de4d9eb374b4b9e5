# SPDX-License-Identifier: BSD-3-Clause
"""The cases of shared loops, after the figures of the MPI Workshare paper.

A shared loop can be compiled in six ways: by GCC, Clang or gfortran, each for an unmodified OpenMP
program (`MH_OPENMP=1`) and for a program with marked loops (mhcc, mhfort; no setting is needed).
"""

from __future__ import annotations

from dataclasses import replace

from manyhands import openmp_threads

from manyhands_bench.case import (
    MARKED,
    OMP,
    OPENMP,
    PLAIN,
    SHARED,
    Arm,
    Case,
    Variant,
    Way,
    all_cores,
    args,
    ranks,
)
from manyhands_bench.host import Machine
from manyhands_bench.loops import DEFAULT_VICTIM, IDEAL, MARKED_CASES, STATIC_PROGRAMS

LAYERS_A_RANK = 24  # layers of finite elements
TURNS = 5  # how often a launch runs all imbalances
TURNS_OF_PROGRAMS = 3  # how often a launch of a program of _PROGRAMS runs all imbalances
FAKE_NODES = 2
GCC = Way("gcc")
GCC_MARKED = Way("gcc", marked=True)
C_WAYS = (GCC, GCC_MARKED, Way("clang"), Way("clang", marked=True))
WAYS = (*C_WAYS, Way("gfortran"), Way("gfortran", marked=True))


def _ways(*ways: Way):
    found = tuple(Variant(way.name, way) for way in ways)
    return lambda machine: found


def _crowds(machine: Machine) -> tuple[Variant, ...]:
    """Numbers of ranks from cores + 1 to four times the cores."""
    cores = machine.cores
    counts = (cores + 1, 2 * cores, 3 * cores, 4 * cores)
    return tuple(Variant(f"{count} ranks", GCC, ranks=count) for count in counts)


def _imbalances(machine: Machine) -> tuple[int, ...]:
    """Imbalances of the largest rank in per cent over the mean, 0 to 500. The largest of P ranks
    has at most P times the mean.

    The imbalance of two ranks ends at 100 %. In the steps before, the larger of two ranks has 0,
    100, ... 500 % more work than the smaller.
    """
    cores = max(2, machine.cores)
    steps = (0, 33, 50, 60, 67, 71, 100) if cores == 2 else range(0, 501, 100)
    return tuple(percent for percent in steps if percent <= 100 * (cores - 1))


def _sweep(machine: Machine) -> tuple[str, ...]:
    """Arguments that run all imbalances in turn within a launch, because the times of successive
    launches on a noisy host differ by a third.
    """
    layers = str(LAYERS_A_RANK * max(2, machine.cores))
    size = ("--nx", "40", "--ny", "40", "--nz", layers)
    steps = ",".join(str(percent) for percent in _imbalances(machine))
    turns = ("--imbalance", steps, "--repeat", str(TURNS))
    return (*size, *turns, "--tolerance", "0", "--iterations", "100", "--json", "-")


def _grid(machine: Machine) -> tuple[Variant, ...]:
    """Ranks times threads that use every core once or, with --oversubscribe, twice."""
    pairs = [
        (total // threads, threads)
        for total in (machine.cores, 2 * machine.cores)
        for threads in range(1, machine.cores + 1)
        if total % threads == 0 and (total == machine.cores or threads > 1)
    ]
    return tuple(
        Variant(f"{count} x {threads}", GCC, ranks=count, threads=threads)
        for count, threads in dict.fromkeys(pairs)
    )


def _marked_grid(machine: Machine) -> tuple[Variant, ...]:
    """Ranks times threads: a rank with a thread on each core, a rank on each core, and twice as
    many ranks.
    """
    cores = max(2, machine.cores)
    return tuple(
        Variant(f"{count} x {threads}", GCC_MARKED, ranks=count, threads=threads)
        for count, threads in ((1, cores), (cores, 1), (2 * cores, 1))
    )


def _marked(name: str, title: str, program: str, arguments) -> Case:
    """A case of marked loops beside the same loops with `omp` directives."""
    arms = (OMP, MARKED)
    return Case(
        name,
        f"{title}: ranks x threads, with `omp` directives and marked",
        program,
        all_cores(2),
        arguments,
        arms=arms,
        variants=_marked_grid,
        crowded=True,
    )


def _elements(machine: Machine) -> tuple[str, ...]:
    layers = str(LAYERS_A_RANK * max(2, machine.cores))
    size = ("--nx", "40", "--ny", "40", "--nz", layers)
    return (*size, *_FIXED, "50", "--repeat", str(TURNS_OF_PROGRAMS), "--json", "-")


_OF_MARKED = (
    ("The triangle", "loops", args("--micros", "2000,20000", "--repeat", "20")),
    ("Equal work", "loops", args("--micros", "2000,20000", "--repeat", "20", "--balanced")),
    ("Triangle counting", "triangles", args("--reference", "0", "--json", "-")),
    ("Finite elements", "finite_elements", _elements),
)


def _victims(name: str) -> Arm:
    return Arm(name, environment={**SHARED.environment, "MH_VICTIM": name})


def _simulated(name: str) -> Arm:
    return Arm(name, arguments=("--policy", name))


def _steal(chunk: int) -> Arm:
    return Arm(f"steal {chunk}", arguments=("--steal", str(chunk)))


CHUNKS = (1, 8, 64, 512)
_FIXED = ("--tolerance", "0", "--iterations")
POLICIES = (DEFAULT_VICTIM, "most-work", "fewest-lenders", "random")
_ALL_CHUNKS = ("--chunks", ",".join(str(chunk) for chunk in CHUNKS))
_2MS = ("--micros", "2000")


STATIC = Arm("shared", environment={OPENMP: "static", "OMP_NUM_THREADS": "16"}, loops=True)


def _static(name: str, threads: int) -> Arm:
    return replace(
        STATIC, name=name, environment={OPENMP: "static", "OMP_NUM_THREADS": str(threads)}
    )


def _loops(name: str, title: str, arguments, variants, **more: bool) -> Case:
    """A case of plain loops against shared loops, with a rank on every core."""
    arms = (PLAIN, SHARED)
    return Case(name, title, "loops", all_cores(2), arguments, arms=arms, variants=variants, **more)


# For each program: its name, elements along x and as many along y, layers of elements for each
# rank, and further arguments. With its first value of --imbalance, the last of two ranks has as
# much work as the first, with its second one and a half times, with its third three times as much.
_PROGRAMS = (
    # With this size the matrix of a rank has 13 MB. With a matrix of 65 MB, the memory bandwidth
    # would limit both cores, and sharing loops would gain nothing.
    ("conjugate_gradients", 40, 24, ("--imbalance", "0,20,50", *_FIXED, "200")),
    ("finite_elements_static", 40, 24, ("--imbalance", "0,20,50", *_FIXED, "50")),
    ("hydrodynamics", 30, 30, ("--imbalance", "0,50,200", "--steps", "40")),
)


def _program(name: str, sized: tuple[str, int, int, tuple[str, ...]]) -> Case:
    program, width, layers, words = sized

    def arguments(machine: Machine) -> tuple[str, ...]:
        depth = str(layers * max(2, machine.cores))
        size = ("--nx", str(width), "--ny", str(width), "--nz", depth)
        return (*size, *words, "--repeat", str(TURNS_OF_PROGRAMS), "--json", "-")

    title = f"{program}: static loops, with increasing work on the last rank"
    # Cores take the parts of a static loop whole, a part for each OpenMP thread, so at the end the
    # cores wait for the last part. With more threads the parts are shorter, but each thread costs
    # its region 30 to 100 ns.
    arms = (
        PLAIN,
        _static("64 threads", 64),
        _static("shared", openmp_threads.number("auto", False)),
    )
    return Case(name, title, program, all_cores(2), arguments, arms=arms, variants=_ways(GCC))


LOOP_CASES = (
    _loops(
        "loops",
        "Unbalanced OpenMP loops: from the first start to the last end",
        args(),
        _ways(*WAYS),
    ),
    _loops(
        "loops-balanced",
        "OpenMP loops of equal work: the cost of sharing",
        args("--balanced"),
        _ways(*WAYS),
    ),
    Case(
        "loops-static",
        "Unbalanced static loops, sixteen threads a rank in the shared arm",
        "loops",
        all_cores(2),
        args("--divided"),
        arms=(PLAIN, STATIC),
        variants=_ways(GCC),
    ),
    Case(
        "loops-static-balanced",
        "Static loops of equal work: the cost of sharing",
        "loops",
        all_cores(2),
        args("--divided", "--balanced"),
        arms=(PLAIN, replace(STATIC, loops=False)),
        variants=_ways(GCC),
    ),
    *map(_program, STATIC_PROGRAMS, _PROGRAMS),
    *(_marked(name, *of) for name, of in zip(MARKED_CASES, _OF_MARKED, strict=True)),
    _loops("loops-empty", "An OpenMP loop without helpers", args("--empty"), _ways(*C_WAYS)),
    _loops(
        "loops-ranks",
        "Time of each rank in the triangular loop",
        args("--micros", "20000"),
        lambda machine: (
            Variant(way=GCC),
            Variant("twice as many", GCC, ranks=2 * max(2, machine.cores)),
        ),
    ),
    _loops(
        "loops-chunks",
        "Loops of equal work by chunk size",
        args("--balanced", *_2MS, *_ALL_CHUNKS),
        _ways(GCC, GCC_MARKED),
    ),
    Case(
        "loops-steal-chunks",
        "Marked loops of equal work by chunk size and by the chunk size of helpers",
        "loops",
        all_cores(2),
        args("--balanced", *_2MS, *_ALL_CHUNKS),
        arms=(PLAIN, Arm("steal any"), *(_steal(chunk) for chunk in CHUNKS)),
        variants=_ways(GCC_MARKED),
    ),
    Case(
        "loops-imbalance",
        "Finite elements with marked loops, more work on one rank than the mean",
        "finite_elements",
        all_cores(2),
        _sweep,
        arms=(PLAIN, SHARED),
        variants=_ways(GCC_MARKED),
    ),
    _loops(
        "loops-threads",
        "Ranks x threads, a triangle of 8 ms in total",
        args("--micros", "8000", "--total"),
        _grid,
    ),
    Case(
        "loops-nodes",
        "Two nodes on one machine: loops are shared within each node",
        "loops",
        lambda machine: 4 * max(1, machine.cores // 4),
        args("--micros", "2000,20000"),
        arms=(
            PLAIN,
            Arm("shared", environment=SHARED.environment | {"MH_FAKE_NODES": str(FAKE_NODES)}),
        ),
        variants=_ways(GCC),
        crowded=True,
    ),
    _loops(
        "loops-crowded",
        "More ranks than cores: the triangle",
        args("--micros", "2000,20000", "--repeat", "20"),
        _crowds,
        crowded=True,
    ),
    _loops(
        "loops-crowded-balanced",
        "More ranks than cores: equal work",
        args("--balanced", "--micros", "2000,20000", "--repeat", "20"),
        _crowds,
        crowded=True,
    ),
    _loops(
        "loops-disturbed",
        "A third program takes one core for 20 ms in every 50 ms (means)",
        args("--micros", "500,2000", "--repeat", "400"),
        lambda machine: (
            Variant("", GCC),
            Variant("equal work", GCC, arguments=("--balanced",)),
        ),
        disturbed=True,
    ),
    Case(
        "loops-victims",
        "Choice of the rank to help: the triangle by policy",
        "loops",
        all_cores(3),
        args(),
        arms=(PLAIN, *(_victims(name) for name in POLICIES)),
        variants=_ways(GCC),
    ),
    Case(
        "loops-victims-simulated",
        "Choice of the rank to help, by policy, on simulated nodes of 8 to 128 ranks",
        "victims",
        ranks(128),
        args(),
        arms=(PLAIN, *(_simulated(name) for name in (*POLICIES, IDEAL))),
        simulated=True,
    ),
    Case(
        "loops-paper-simulated",
        "The loops of MPI Workshare's figures on simulated nodes of 16, 48 and 64 cores",
        "victims",
        ranks(64),
        args("--loops", "paper"),
        arms=(PLAIN, *(_simulated(name) for name in (DEFAULT_VICTIM, IDEAL))),
        simulated=True,
    ),
)
