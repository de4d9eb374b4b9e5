# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the benchmark scripts refuse a number of rounds with which they would measure
nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    path.relative_to(CHECKOUT).as_posix()
    for path in (CHECKOUT / "bench").glob("*/*.py")
    if '"--rounds", type=' in path.read_text()
)


@pytest.mark.parametrize("rounds", ["0", "-1", "few"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_no_rounds_are_refused(script: str, rounds: str) -> None:
    command = [sys.executable, script, f"--rounds={rounds}"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert f"takes a number of at least 1, not '{rounds}'" in done.stderr
