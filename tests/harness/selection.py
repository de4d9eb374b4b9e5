# SPDX-License-Identifier: BSD-3-Clause
"""The MPI builds and arms to test: the options name them, and the builds are installed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from manyhands_bench.mpis import find_builds

from harness.launch import ROOT

BUILD_NAMES = ("mpich4", "openmpi4", "mpich5", "openmpi5", "abi")
BUILDS = find_builds(ROOT)
NO_BUILD = "no build"  # replaces the build if none is left: the test is deselected


def wanted_builds(config: pytest.Config, names: Iterable[str] = BUILD_NAMES) -> list[str]:
    """Returns the builds of `names` that the options select."""
    asked = config.getoption("--mpi").split(",")
    return [name for name in BUILD_NAMES if name in names and name in asked and name in BUILDS]


def wanted_arms(config: pytest.Config) -> list[str]:
    arm = config.getoption("--arm")
    return ["plain", "helped"] if arm == "both" else [arm]
