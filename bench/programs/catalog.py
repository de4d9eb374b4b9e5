# SPDX-License-Identifier: BSD-3-Clause
"""Ten programs from Debian's packages and two examples, with an input and a result each.

An input runs for some seconds on two ranks. The result is the lines of the output whose numbers do
not depend on timing. All arms of compare.py have to print the same result.
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from manyhands_bench.mpis import MpiBuild

INPUTS = Path(__file__).parent / "inputs"
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "workshare"
sys.path.insert(0, str(ROOT / "tests" / "programs"))
sys.path.insert(0, str(ROOT / "tests"))
import test_hpcc  # noqa: E402  (the tests know the input files)
import test_nwchem  # noqa: E402

PSEUDOPOTENTIAL = Path(
    "/usr/share/doc/quantum-espresso/examples/atomic/pseudo-LDA-0.5/Si.pz-vbc.UPF.gz"
)


def _nothing(folder: Path) -> None:
    """Prepares nothing, for a program that needs its input file only."""


def _pseudopotential(folder: Path) -> None:
    text = gzip.decompress(PSEUDOPOTENTIAL.read_bytes())
    (folder / "Si.pz-vbc.UPF").write_bytes(text)


def _hpcc(folder: Path) -> None:
    text = test_hpcc.INPUT.format(size=2500, rows=1, columns=2, broadcast=1)
    (folder / "hpccinf.txt").write_text(text)


def _water(folder: Path) -> None:
    (folder / "water.nw").write_text(test_nwchem.INPUT.format(folder=folder))


@dataclass(frozen=True)
class Program:
    name: str
    package: str
    words: tuple[str, ...]
    result: str  # a pattern of the lines, or parts of lines, to compare
    input: str = ""  # a file of inputs/, which is copied to the folder of the run
    output: str = ""  # the file with the result; empty: standard output
    mpi: str = "openmpi4"
    prepare: Callable[[Path], None] = _nothing
    needs: Path | None = None  # a file that a further package installs
    digits: int | None = None  # decimals to compare of a line's last number; None: all
    example: bool = False  # words[0] is a target of examples/workshare

    def missing(self) -> str | None:
        """The reason why the program cannot run on this machine, or None."""
        if self.example:
            return None if shutil.which("make") else "make is not installed"
        if shutil.which(self.words[0]) is None:
            return f"{self.words[0]} is not installed (package {self.package})"
        if self.needs is not None and not self.needs.exists():
            return f"{self.needs} is not installed"
        return None

    def built(self, mpi: MpiBuild) -> Program:
        """The program with its path. An example is built for this MPI."""
        if not self.example:
            return self
        target, *words = self.words
        out = ROOT / "build" / "bench" / "programs" / mpi.name
        make = ["make", "-s", "-C", str(EXAMPLES), f"MPICC={mpi.mpicc}", f"OUT={out}"]
        subprocess.run([*make, str(out / target)], check=True)
        return replace(self, words=(str(out / target), *words))

    def set_up(self, folder: Path) -> None:
        if self.input:
            shutil.copy(INPUTS / self.input, folder / self.input)
        self.prepare(folder)

    def result_of(self, folder: Path, out: str) -> list[str]:
        text = (folder / self.output).read_text() if self.output else out
        found = [match.group(0).strip() for match in re.finditer(self.result, text, re.MULTILINE)]
        return [self._rounded(line) for line in found]

    def _rounded(self, line: str) -> str:
        if self.digits is None:
            return line
        *words, last = line.split()
        return " ".join([*words, f"{float(last):.{self.digits}f}"])


# Arguments of the workshare examples: so few mesh points that MPI_Allreduce and the exchange of
# halos take half of the time.
SMALL = ("--nx", "12", "--ny", "12", "--nz", "24", "--repeat", "50")
THERMO = r"^\s*\d+(\s+-?\d[\d.e+-]*){4,}\s*$"
PROGRAMS = (
    Program("LAMMPS LJ", "lammps", ("lmp", "-log", "none", "-in", "lj.lmp"), THERMO, "lj.lmp"),
    Program(
        "LAMMPS PPPM", "lammps", ("lmp", "-log", "none", "-in", "pppm.lmp"), THERMO, "pppm.lmp"
    ),
    Program(
        "HPCC",
        "hpcc",
        ("hpcc",),
        r"^(Success|\w*Errors(Fraction)?)=.*$|FAILED",
        output="hpccoutf.txt",
        prepare=_hpcc,
    ),
    Program(
        "NWChem",
        "nwchem-openmpi",  # MPICH 4.0.2 alone gives wrong energies on two ranks
        ("nwchem.openmpi", "water.nw"),
        r"^\s*Total (SCF|MP2) energy\s*=?\s*-\d+\.\d+",
        prepare=_water,
        digits=7,
    ),
    Program(
        "Quantum ESPRESSO",
        "quantum-espresso",
        ("pw.x", "-in", "si.pw"),
        r"^!\s+total energy.*$",
        "si.pw",
        prepare=_pseudopotential,
        needs=PSEUDOPOTENTIAL,
    ),
    Program(
        "CP2K",
        "cp2k",
        ("cp2k.psmp", "h2o.cp2k"),
        r"^ ENERGY\| Total.*$",
        "h2o.cp2k",
        digits=9,
    ),
    Program(
        "ABINIT",
        "abinit",
        ("abinit", "si.abi"),
        r"^\s*etotal\s.*$",
        "si.abi",
        needs=Path("/usr/share/abinit/psp/14si.pspnc"),
    ),
    Program("Meep", "meep-mpi-default", ("meep", "sphere.ctl"), r"^flux1:.*$", "sphere.ctl"),
    Program("MPB", "mpb-mpi", ("mpb-mpi", "diamond.ctl"), r"^freqs:.*$", "diamond.ctl"),
    Program(
        "Elk",
        "elk-lapw",
        ("elk-lapw",),
        r"^\s*-\d+\.\d+",
        "elk.in",
        output="TOTENERGY.OUT",
        needs=Path("/usr/share/elk-lapw/species/Si.in"),
        digits=6,
    ),
    Program(
        "CG, as in HPCG",
        "",
        ("conjugate_gradients-plain", *SMALL),
        r"hash \w+",
        example=True,
    ),
    Program(
        "FEM, as in miniFE",
        "",
        ("finite_elements-plain", *SMALL),
        r"hash \w+",
        example=True,
    ),
)
