# SPDX-License-Identifier: BSD-3-Clause
"""Tests the examples of task collections: their results are right with every balancer."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from harness.launch import ROOT, Arm, Run, run
from harness.making import made
from harness.selection import BUILDS

EXAMPLES = ROOT / "examples"
LIBRARY = ROOT / "build" / "lib" / "libmanyhands-tasks.so"
BALANCERS = ("none", "steal", "retain", "plb-central", "plb-tree", "auto")
BUILD = next(iter(BUILDS.values()), None)
LIMIT_S = 90
pytestmark = pytest.mark.skipif(BUILD is None, reason="no MPI is installed")


def has_header(name: str) -> bool:
    command = ["c++", "-E", "-x", "c++", "-I/usr/include/eigen3", "-"]
    text = f"#include <{name}>\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return done.returncode == 0


def built(example: str, program: str) -> Path:
    """Builds the program with the example's own Makefile, and returns its path."""
    assert BUILD is not None
    folder = EXAMPLES / example
    compiler = BUILD.mpicc.with_name(BUILD.mpicc.name.replace("mpicc", "mpicxx"))
    sources = [path for path in folder.iterdir() if path.suffix in (".cpp", ".hpp")]
    sources += list(EXAMPLES.glob("*.hpp"))
    sources += [LIBRARY, *(ROOT / "include" / "manyhands").rglob("*.hpp")]

    def command(target: Path) -> list[str]:
        out = target.parent
        make = f"make -s -C {folder} MPICXX={compiler} OUT={out} CXXFLAGS=-O2 {out}/{program}"
        return ["sh", "-c", f"{make} && mv {out}/{program} {target}"]

    target = ROOT / "build" / "tests" / "mpi-programs" / BUILD.name / f"example-{program}"
    return made(target, sources, command, 500)


def launched(ranks: int, program: Path, *words: str) -> Run:
    assert BUILD is not None
    done = run(BUILD, Arm("plain"), ranks, [str(program), *words], timeout_s=LIMIT_S)
    assert done.code == 0, done.told()
    return done


# --- unbalanced tree search ---------------------------------------------------------------------

needs_openssl = pytest.mark.skipif(not has_header("openssl/sha.h"), reason="no libssl-dev")


@cache
def small_binomial() -> str:
    """Returns the counts of the tree `small-binomial`, computed here."""
    nodes = leaves = deepest = 0
    left = [(hashlib.sha1(bytes(16) + (42).to_bytes(4, "big")).digest(), 0)]
    while left:
        state, depth = left.pop()
        nodes += 1
        deepest = max(deepest, depth)
        drawn = (int.from_bytes(state[16:], "big") & 0x7FFFFFFF) / 2**31
        children = (8 if drawn < 0.124 else 0) if depth else 100
        leaves += children == 0
        for i in range(children):
            left.append((hashlib.sha1(state + i.to_bytes(4, "big")).digest(), depth + 1))
    return f"nodes {nodes} leaves {leaves} depth {deepest}"


@needs_openssl
@pytest.mark.parametrize("balancer", BALANCERS)
def test_uts_counts_every_node(balancer: str) -> None:
    done = launched(2, built("uts", "uts"), "small-binomial", balancer)
    done.expect(small_binomial())


@needs_openssl
@pytest.mark.parametrize("tree", ["T1", "T3"])
def test_uts_trees_are_the_published_ones(tree: str) -> None:
    launched(2, built("uts", "uts"), tree, "steal").expect("as published")


# --- Hartree-Fock -------------------------------------------------------------------------------

# Reference energies in hartree, from PySCF 2.14 with the same basis and geometries (conv_tol
# 1e-12).
ENERGIES = {
    "water": -74.9630231385,
    "benzene": -227.8906006048,
    "h10": -5.2140688030,
    "h32": -16.6613269995,
}
CASES = [("water", balancer) for balancer in BALANCERS]
CASES += [("benzene", "retain"), ("h10", "plb-tree"), ("h32", "auto")]


# Slow: the headers of libint2 take minutes to compile.
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not has_header("libint2.h"), reason="no libint2-dev")
@pytest.mark.skipif(not has_header("Eigen/Dense"), reason="no libeigen3-dev")
@pytest.mark.parametrize(("molecule", "balancer"), CASES)
def test_hartree_fock_energies_are_those_of_pyscf(molecule: str, balancer: str) -> None:
    path = EXAMPLES / "hartree-fock" / "molecules" / f"{molecule}.xyz"
    done = launched(2, built("hartree-fock", "hartree-fock"), str(path), balancer)
    energy = re.search(r"^energy (\S+)$", done.out, re.MULTILINE)
    assert energy is not None, done.told()
    assert abs(float(energy[1]) - ENERGIES[molecule]) < 1e-8


# --- tensor contraction -------------------------------------------------------------------------


needs_blas = pytest.mark.skipif(not has_header("cblas.h"), reason="no libopenblas-dev")


@needs_blas
@pytest.mark.parametrize("balancer", BALANCERS)
def test_tensor_contraction_is_right(balancer: str) -> None:
    program = built("tensor-contraction", "tensor-contraction")
    done = launched(2, program, balancer, "3", "3", "3")
    assert re.search(r"^error \S+ right$", done.out, re.MULTILINE), done.told()


def tensor(sizes: list[int], seed: int) -> dict[tuple[int, ...], float]:
    """Returns the elements by their four indices, drawn tile by tile as tensor.hpp draws them."""
    starts = [sum(sizes[:tile]) for tile in range(len(sizes))]
    elements = {}
    for tiles in itertools.product(range(len(sizes)), repeat=4):
        ranges = [range(starts[tile], starts[tile] + sizes[tile]) for tile in tiles]
        for index in itertools.product(*ranges):
            seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
            elements[index] = (seed - 2**64 if seed >= 2**63 else seed) / 9.3e18
    return elements


@cache
def contracted(tiles: int, mean: int) -> tuple[float, float]:
    """Returns the sums of all elements of the product and of their squares, computed here."""
    sizes = [1 + (i * 7 + 3) % (2 * mean - 1) for i in range(tiles)]
    every = range(sum(sizes))
    pairs = list(itertools.product(every, repeat=2))
    a, b = tensor(sizes, 1), tensor(sizes, 2)
    columns = [[b[(*inner, *right)] for inner in pairs] for right in pairs]
    total = squares = 0.0
    for left in pairs:
        row = [a[(*left, *inner)] for inner in pairs]
        for column in columns:
            one = math.fsum(x * y for x, y in zip(row, column, strict=True))
            total += one
            squares += one * one
    return total, squares


# The example runs with many tiles of few elements: 625 tiles of each tensor.
@needs_blas
@pytest.mark.parametrize(("ranks", "balancer"), [(1, "none"), (2, "retain"), (2, "plb-tree")])
def test_tensor_contraction_of_many_tiles(ranks: int, balancer: str) -> None:
    program = built("tensor-contraction", "tensor-contraction")
    done = launched(ranks, program, balancer, "5", "2", "2")
    assert re.search(r"^error \S+ right$", done.out, re.MULTILINE), done.told()
    found = re.search(r"^sum (\S+) squares (\S+)$", done.out, re.MULTILINE)
    assert found is not None, done.told()
    total, squares = contracted(5, 2)
    assert float(found[1]) == pytest.approx(2 * total, rel=1e-9)
    assert float(found[2]) == pytest.approx(4 * squares, rel=1e-9)
