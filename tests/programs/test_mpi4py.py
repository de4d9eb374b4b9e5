# SPDX-License-Identifier: BSD-3-Clause
"""Runs the test suite of mpi4py: the same tests pass, fail and are skipped as without help.

Each rank writes the output of `main.py -v` to its own file. A test that fails without help must
fail helped as well. The whole suite is slow. The short form has only the modules about messages and
windows.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from harness.launch import COMPILED, ROOT, TIMED_OUT, Arm, run
from manyhands_bench.mpis import MpiBuild

VERSION = "4.1.2"
PYTHON = {"mpich5": ".mpi/mpich5/bin/python", "openmpi5": ".mpi/openmpi5/bin/python"}
VERDICT = re.compile(
    r"^(test\w+) \((\S+)\).*?\.\.\. (ok|FAIL|ERROR|skipped|expected failure)", re.M
)
pytestmark = pytest.mark.under(*PYTHON)
SHORT = ["test_p2p_buf", "test_p2p_buf_matched", "test_p2p_obj", "test_msgzero", "test_cco_buf"]
ONE_SIDED = ["test_rma", "test_rma_nb", "test_win"]
# Tests of mpi4py that spawn programs are left out: the spawned programs outlive the test, or need
# more slots than the launcher has. tests/mpi covers spawning.
LEFT_OUT = ["-e", "spawn", "-e", "dynproc"]


def suite() -> Path:
    """Returns the sources of mpi4py's tests, from its source distribution."""
    folder = COMPILED.parent / "mpi4py"
    main = folder / f"mpi4py-{VERSION}" / "test" / "main.py"
    if main.exists():
        return main
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary=:all:"]
    command += ["--no-build-isolation", "-d", str(folder), f"mpi4py=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    archive = folder / f"mpi4py-{VERSION}.tar.gz"
    if not archive.exists():
        pytest.skip(f"mpi4py's sources cannot be had: {done.stderr.strip()[-200:]}")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data") if sys.version_info >= (3, 12) else tar.extractall(
            folder
        )
    return main


def verdicts(
    mpi: MpiBuild, arm: Arm, ranks: int, words: list[str], scratch: Path, limit_s: float
) -> Counter[tuple[int, str, str]]:
    """Returns the number of each outcome of each test, by rank."""
    scratch.mkdir()
    script = f'exec "$0" "$@" 2>"{scratch}/${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}"'
    python = str(ROOT / PYTHON[mpi.name])
    program = ["sh", "-c", script, python, str(suite()), "-v", *LEFT_OUT, *words]
    done = run(mpi, arm, ranks, program, timeout_s=limit_s)
    texts = {int(path.name): path.read_text(errors="replace") for path in scratch.iterdir()}
    said = "\n".join(text[-1500:] for text in texts.values())
    assert done.code != TIMED_OUT, f"{done.told()}\n{said}"
    assert len(texts) == ranks, done.told()
    for text in texts.values():
        assert re.search(r"^Ran \d+ tests", text, re.M), f"{done.told()}\n{said}"
    done.expect_clean()
    return Counter(
        (rank, test, verdict)
        for rank, text in texts.items()
        for _, test, verdict in VERDICT.findall(text)
    )


def compare(
    mpi: MpiBuild, helped: Arm, ranks: int, words: list[str], scratch: Path, limit_s: float
) -> None:
    plain = verdicts(mpi, Arm("plain"), ranks, words, scratch / "plain", limit_s)
    same = verdicts(mpi, helped, ranks, words, scratch / "helped", limit_s)
    assert sum(plain.values()) > 50 * ranks, "hardly any test was run"
    assert sorted((same - plain).items()) == []
    assert sorted((plain - same).items()) == []


@pytest.mark.parametrize("ranks", [2])
def test_messages(mpi: MpiBuild, helped: Arm, tmp_path: Path, ranks: int) -> None:
    compare(mpi, helped, ranks, SHORT, tmp_path, 50)


# Under Open MPI 5 the one-sided tests of mpi4py hang, also without help.
@pytest.mark.under("mpich5")
def test_one_sided(mpi: MpiBuild, helped: Arm, tmp_path: Path) -> None:
    compare(mpi, helped, 2, ONE_SIDED, tmp_path, 50)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_whole_suite(mpi: MpiBuild, helped: Arm, tmp_path: Path, ranks: int) -> None:
    compare(mpi, helped, ranks, [], tmp_path, 1000)
