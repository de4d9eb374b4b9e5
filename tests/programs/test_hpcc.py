# SPDX-License-Identifier: BSD-3-Clause
"""Runs the HPC Challenge suite of Debian with a small input: its own checks pass as without help.

HPL residuals and the errors that PTRANS, RandomAccess and FFT report are compared. The rates are
not.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness.launch import Arm, Run, run
from manyhands_bench.mpis import MpiBuild
from test_lammps import under_what_it_loads

INPUT = """HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{size}       Ns
1            # of NBs
64           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{rows}       Ps
{columns}    Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
{broadcast}  BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0                      Number of additional problem sizes for PTRANS
1200 10000 30000       values of N
0                      number of additional blocking sizes for PTRANS
40 9 8 13 13 20 16 32 64       values of NB
"""

CHECKS = (
    "Success",
    "MPIRandomAccess_LCG_ErrorsFraction",
    "MPIRandomAccess_ErrorsFraction",
    "StarRandomAccess_LCG_GUPs_Errors",
    "PTRANS_residual",
    "MPIFFT_N",
    "HPL_N",
    "CommWorldProcs",
)
SMALL = (
    "MPIFFT_maxErr",
    "HPL_RnormI",
)  # may depend on the order of sums, but hardly on anything else


def results(done: Run, folder: Path) -> dict[str, str]:
    text = (folder / "hpccoutf.txt").read_text()
    summary = text[text.rindex("Begin of Summary section") :]
    found = dict(re.findall(r"^(\w+)=(\S+)$", summary, re.MULTILINE))
    assert found.get("Success") == "1", text[-3000:]
    assert "FAILED" not in text, text
    # PTRANS prints its CPU line only if the clock of CPU time has advanced between two readings.
    passed = [line for line in text.splitlines() if "PASSED" in line and not line.startswith("CPU")]
    found["passed"] = str(len(passed))
    return found


def hpcc(mpi: MpiBuild, arm: Arm, folder: Path, size: int, grid: tuple[int, int]) -> dict[str, str]:
    folder.mkdir()
    rows, columns = grid
    text = INPUT.format(size=size, rows=rows, columns=columns, broadcast=1)
    (folder / "hpccinf.txt").write_text(text)
    program = ["sh", "-c", f"cd '{folder}' && exec hpcc"]
    done = run(
        mpi,
        arm,
        rows * columns,
        program,
        {"MH_THRESHOLD": "16K", "MH_EXCHANGE_THRESHOLD": "16K"},
        timeout_s=400,
    )
    assert done.code == 0, done.told()
    done.expect_clean()
    return results(done, folder)


@under_what_it_loads("hpcc")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("size", "grid"),
    [
        pytest.param(400, (1, 2), id="short"),
        pytest.param(3000, (2, 2), id="long", marks=pytest.mark.slow),
    ],
)
def test_all_checks_pass_as_without_help(
    mpi: MpiBuild, helped: Arm, tmp_path: Path, size: int, grid: tuple[int, int]
) -> None:
    plain = hpcc(mpi, Arm("plain"), tmp_path / "plain", size, grid)
    same = hpcc(mpi, helped, tmp_path / "helped", size, grid)
    assert same["passed"] == plain["passed"] != "0"
    for key in CHECKS:
        assert same.get(key) == plain.get(key), key
    for key in SMALL:
        assert float(same[key]) == pytest.approx(float(plain[key]), rel=0.5, abs=1e-12), key
