# SPDX-License-Identifier: BSD-3-Clause
"""The stencil compiled for an MPI build, and its runs: shared by the tests of this directory."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from manyhands.demo.runs import compile_stencil, environment
from manyhands_bench.mpis import MpiBuild, Placement, find_builds

CHECKOUT = Path(__file__).resolve().parents[2]
BUILDS = find_builds(CHECKOUT)


@dataclass(frozen=True)
class Stencil:
    build: MpiBuild
    program: Path

    def run(self, ranks: int, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = self.build.launch(ranks, Placement.FREE)
        command += [str(self.program), *(str(word) for word in arguments)]
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(self.build),
        )


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Stencil]:
    """Returns a function that compiles the stencil once for a build; warnings are errors."""
    made: dict[str, Stencil] = {}

    def get(name: str) -> Stencil:
        if name not in made:
            source = CHECKOUT / "examples" / "stencil"
            folder = tmp_path_factory.mktemp(name)
            made[name] = Stencil(BUILDS[name], compile_stencil(BUILDS[name], source, folder))
        return made[name]

    return get


@pytest.fixture(params=list(BUILDS))
def stencil(request: pytest.FixtureRequest, compiled: Callable[[str], Stencil]) -> Stencil:
    """Returns the stencil for a build; the test runs under every MPI present."""
    return compiled(request.param)


@pytest.fixture
def any_stencil(compiled: Callable[[str], Stencil]) -> Stencil:
    """Returns the stencil for one MPI, for tests that do not depend on the MPI."""
    if not BUILDS:
        pytest.skip("no MPI here")
    return compiled(next(iter(BUILDS)))
