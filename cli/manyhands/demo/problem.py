# SPDX-License-Identifier: BSD-3-Clause
"""The size of the stencil, which gives halo exchange the share of work that it has in practice.

The measure is the best case that CAB-MPI shows for miniGhost: cubes of 24 cells with six
neighbours, which exchange a plane for every four planes that they compute. With few ranks each rank
has fewer neighbours, so the boxes are made thinner until the share is the same. The number of
variables in a cell is chosen so that a message is megabytes long.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

PLANES_COMPUTED_FOR_ONE_SENT = 4
MESSAGE_BYTES = 4 << 20
FEWEST_VARIABLES = 40
BYTES_OF_A_CELL = 8


@dataclass(frozen=True)
class Problem:
    cells: tuple[int, int, int]  # of a rank, in x, y, z
    variables: int

    def arguments(self) -> list[str]:
        nx, ny, nz = (str(n) for n in self.cells)
        return ["--nx", nx, "--ny", ny, "--nz", nz, "--vars", str(self.variables)]

    def bytes_of_a_rank(self) -> int:
        """The size of one copy of a rank's cells, in bytes."""
        return math.prod(self.cells) * self.variables * BYTES_OF_A_CELL


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    arguments: tuple[str, ...]
    heap: bool = False  # the helped arm has MH_HEAP=on


CASES = [
    Case("packed", "planes packed by the program, balanced ranks", ("--halo", "packed")),
    Case(
        "heap",
        "planes packed by the program; helped runs use MH_HEAP=on",
        ("--halo", "packed"),
        heap=True,
    ),
    Case(
        "late",
        "packed planes, every second rank computes 25 % more",
        ("--halo", "packed", "--imbalance", "25"),
    ),
    Case("types", "planes as MPI datatypes, balanced ranks", ("--halo", "types")),
]


def process_grid(ranks: int) -> tuple[int, int, int]:
    """Numbers of processes along x, y, z: three factors as similar as possible, the largest along
    z.
    """
    factors = [f for f in range(1, ranks + 1) if ranks % f == 0]
    grids = [(x, y, ranks // (x * y)) for x in factors for y in factors if ranks % (x * y) == 0]
    ordered = [grid for grid in grids if grid[0] <= grid[1] <= grid[2]]
    return min(ordered, key=lambda grid: (grid[2], -grid[0]))


def choose(ranks: int) -> Problem:
    processes = process_grid(ranks)
    # The mean number of neighbours of a rank along each axis: the outermost ranks have one less.
    neighbours = [2 * (p - 1) / p for p in processes]
    thickness = max(2, round(PLANES_COMPUTED_FOR_ONE_SENT * sum(neighbours)))
    undivided = processes.count(1)
    cells_of_a_message = MESSAGE_BYTES // (BYTES_OF_A_CELL * FEWEST_VARIABLES)
    length = thickness
    if undivided:
        length = round((cells_of_a_message / thickness ** (2 - undivided)) ** (1 / undivided))
    nx, ny, nz = (length if p == 1 else thickness for p in processes)
    smallest = min(nx * ny * nz // n for n, p in zip((nx, ny, nz), processes, strict=True) if p > 1)
    variables = max(FEWEST_VARIABLES, round(MESSAGE_BYTES / (BYTES_OF_A_CELL * smallest)))
    return Problem((nx, ny, nz), variables)
