# SPDX-License-Identifier: BSD-3-Clause
"""The MPI for the demo: the one that the user named, that of the site, or that of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from manyhands_bench.mpis import MpiBuild, find_builds

from manyhands import installation

EMBEDDED = ("mpich5", "openmpi5")


class NoMpi(Exception):
    """There is no usable MPI; the text has the remedy."""


def choose(wanted: str | None) -> MpiBuild:
    """The MPI that `wanted` names: a build, a prefix, or an mpicc. Without `wanted`, that of the
    site, otherwise a build of the checkout.
    """
    found = find_builds(installation.checkout() or Path.cwd())
    if wanted is not None:
        return found[wanted] if wanted in found else _named(wanted, list(found))
    site = _of_site()
    if site is not None:
        return site
    for name in (*EMBEDDED, *found):
        if name in found:
            return found[name]
    raise NoMpi(
        "found no MPI (no mpicc with an mpiexec beside it): install an MPI, load its module, or "
        "run `make build` in the checkout, which installs one there"
    )


def _of_site() -> MpiBuild | None:
    """The build of the mpicc on the PATH, if an mpiexec is beside it."""
    mpicc = shutil.which("mpicc")
    return _beside(Path(mpicc)) if mpicc else None


def _named(wanted: str, names: list[str]) -> MpiBuild:
    path = Path(wanted)
    mpicc = path / "bin" / "mpicc" if path.is_dir() else path
    if mpicc.is_file() and os.access(mpicc, os.X_OK):
        build = _beside(mpicc.absolute())
        if build is not None:
            return build
        raise NoMpi(f"--mpi {wanted}: there is no mpiexec beside {mpicc}; name a complete MPI")
    have = ", ".join(names) or "none"
    raise NoMpi(
        f"--mpi {wanted} names no prefix, no mpicc and no installed build (installed: {have})"
    )


def _beside(mpicc: Path) -> MpiBuild | None:
    """The MPI of this mpicc, with the mpiexec beside it; for mpicc.mpich that is mpiexec.mpich."""
    suffix = mpicc.name.removeprefix("mpicc") if mpicc.name.startswith("mpicc.") else ""
    mpiexec = mpicc.with_name(f"mpiexec{suffix}")
    if not mpiexec.exists():
        return None
    return MpiBuild(mpicc.name, mpicc, mpiexec, _family(mpiexec))


def _family(mpiexec: Path) -> str:
    done = subprocess.run(
        [str(mpiexec), "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    text = (done.stdout + done.stderr).lower()
    openmpi = any(mark in text for mark in ("open mpi", "openrte", "prrte", "open-mpi"))
    return "openmpi" if openmpi else "hydra"
