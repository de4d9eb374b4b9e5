# SPDX-License-Identifier: BSD-3-Clause
"""Prints the CMake targets that the demo needs: `make demo` builds these and nothing else.

The demo runs under one MPI, so it needs the front, the heap, and the variant for the ABI of that
MPI. For an MPI of unknown kind it needs all variants. Usage: `python -m manyhands.demo.needs`.
"""

from __future__ import annotations

import subprocess

from manyhands_bench.mpis import MpiBuild

from manyhands.demo.mpi import NoMpi, choose

COMMON = ("manyhands", "manyhands-heap")
VARIANTS = ("manyhands-mpich", "manyhands-openmpi", "manyhands-abi")


def variants(build: MpiBuild) -> tuple[str, ...]:
    """The targets of the variants that programs compiled by this MPI's mpicc may load."""
    if build.family == "openmpi":
        return ("manyhands-openmpi",)
    if links_standard_abi(build):
        return ("manyhands-abi",)
    return ("manyhands-mpich",) if build.family == "hydra" else VARIANTS


def links_standard_abi(build: MpiBuild) -> bool:
    """True if the MPI's mpicc links libmpi_abi, judged by the command that `mpicc -show` prints."""
    shown = subprocess.run(
        [str(build.mpicc), "-show"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return "-lmpi_abi" in shown.stdout.split()


def targets() -> tuple[str, ...]:
    """The targets that the demo needs. Without an MPI these are all: the demo itself reports the
    lack.
    """
    try:
        return (*COMMON, *variants(choose(None)))
    except NoMpi:
        return (*COMMON, *VARIANTS)


if __name__ == "__main__":
    print(*targets())
