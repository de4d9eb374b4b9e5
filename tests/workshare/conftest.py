# SPDX-License-Identifier: BSD-3-Clause
"""The programs that the tests of this folder run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from workshare_builds import BUILDS, Programs


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Programs]:
    """Returns the programs of an MPI; the first use compiles them, with warnings as errors."""
    made: dict[str, Programs] = {}

    def get(name: str) -> Programs:
        if name not in made:
            made[name] = Programs(BUILDS[name], tmp_path_factory.mktemp(name))
        return made[name]

    return get


@pytest.fixture(params=list(BUILDS))
def programs(request: pytest.FixtureRequest, compiled: Callable[[str], Programs]) -> Programs:
    """Returns the programs of an MPI build; the test runs with MPICH and with Open MPI."""
    return compiled(request.param)


@pytest.fixture
def any_programs(compiled: Callable[[str], Programs]) -> Programs:
    """Returns the programs of one MPI build, for tests that do not depend on the MPI."""
    if not BUILDS:
        pytest.skip("no MPI here")
    return compiled(next(iter(BUILDS)))
