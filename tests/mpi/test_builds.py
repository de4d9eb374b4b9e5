# SPDX-License-Identifier: BSD-3-Clause
"""Each requested MPI build has a launcher that works; a missing build is reported here.

Other tests do not report missing builds: builds that are not installed have no tests.
"""

from __future__ import annotations

import pytest
from harness.launch import Arm, run
from harness.selection import BUILDS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("name", metafunc.config.getoption("--mpi").split(","))


def test_its_launcher_starts_ranks(name: str) -> None:
    if name not in BUILDS:
        pytest.skip(f"{name} is not installed: nothing is tested under it")
    done = run(BUILDS[name], Arm("plain"), 2, ["echo", "started"])
    assert done.code == 0, done.told()
    assert done.out.split() == ["started"] * 2, done.told()
