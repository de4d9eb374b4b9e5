# SPDX-License-Identifier: BSD-3-Clause
"""The results of the workshare examples, computed in Python in the most obvious way."""

from __future__ import annotations

import itertools

MASK = (1 << 64) - 1
PRIME = 2**31 - 1
FACTOR = 48271

Edge = tuple[int, int]


def mix64(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def triangular_checksum(rows: int, balanced: bool) -> str:
    total = 0
    for i in range(rows):
        steps = (rows + 1) // 2 if balanced else i + 1
        total += mix64(i) * pow(FACTOR, steps, PRIME) % PRIME
    return f"{total & MASK:016x}"


def kronecker_edge(scale: int, key: int) -> Edge:
    row = column = 0
    for level in range(scale):
        random = (mix64((key + level) & MASK) >> 11) * 2.0**-53
        quarter = sum(random >= bound for bound in (0.57, 0.57 + 0.19, 0.57 + 0.19 + 0.19))
        row, column = 2 * row + quarter // 2, 2 * column + quarter % 2
    return row, column


def kronecker(scale: int, degree: int, seed: int) -> list[Edge]:
    key = mix64(seed)
    return [kronecker_edge(scale, mix64(key ^ i)) for i in range(degree << scale)]


def count_triangles(edges: list[Edge]) -> int:
    near: dict[int, set[int]] = {}
    for a, b in edges:
        if a != b:
            near.setdefault(a, set()).add(b)
            near.setdefault(b, set()).add(a)
    corners = 0
    for others in near.values():
        corners += sum(b in near[a] for a, b in itertools.combinations(others, 2))
    return corners // 3
