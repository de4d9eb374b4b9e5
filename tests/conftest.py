# SPDX-License-Identifier: BSD-3-Clause
"""Options and fixtures of the tests that run MPI programs: over MPI builds, plain and helped.

`--mpi mpich4,abi` runs under these builds alone; `--arm helped|plain|both`; `--library` is the
library to put in front (build/lib/libmanyhands.so); `--asan` says it was built with
AddressSanitizer, so that its runtime has to come first; `--heap` runs with the shared heap. Tests
marked `slow` run with `--slow` only.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from harness.launch import LIBRARY, ROOT, Arm, with_heap
from manyhands.benchmarks.mpis import MpiBuild, find_builds

BUILD_NAMES = ("mpich4", "openmpi4", "mpich5", "openmpi5", "abi")
BUILDS = find_builds(ROOT)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("MPI programs")
    group.addoption("--mpi", default=",".join(BUILD_NAMES), help="names of MPI builds, by commas")
    group.addoption("--arm", default="helped", choices=("plain", "helped", "both"))
    group.addoption("--library", type=Path, default=LIBRARY, help="the library to put in front")
    group.addoption("--asan", action="store_true", help="the library has AddressSanitizer in it")
    group.addoption("--heap", action="store_true", help="with MH_HEAP=on in helped runs")
    group.addoption("--slow", action="store_true", help="the tests marked slow as well")
    group.addoption("--fuzz-seed", type=int, default=None, help="one seed instead of many")
    group.addoption("--fuzz-rounds", type=int, default=None, help="rounds of a fuzz run")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: too long for continuous integration")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow; run with --slow")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)


def _asan_runtime(build: MpiBuild) -> Path:
    command = ["gcc", "-print-file-name=libasan.so"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return Path(found).resolve()


def helped_arm(config: pytest.Config, build: MpiBuild) -> Arm:
    library = Path(config.getoption("--library")).resolve()
    if config.getoption("--heap"):
        return with_heap(Arm("helped", library))
    if not config.getoption("--asan"):
        return Arm("helped", library)
    settings = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1"}
    return Arm("helped", library, (_asan_runtime(build),), settings)


@pytest.fixture(params=BUILD_NAMES)
def mpi(request: pytest.FixtureRequest) -> MpiBuild:
    """Every MPI build that is there."""
    if request.param not in request.config.getoption("--mpi").split(","):
        pytest.skip("not asked for by --mpi")
    if request.param not in BUILDS:
        pytest.skip(f"{request.param} is not installed")
    return BUILDS[request.param]


@pytest.fixture
def helped(request: pytest.FixtureRequest, mpi: MpiBuild) -> Arm:
    """With the library in front."""
    arm = helped_arm(request.config, mpi)
    if request.config.getoption("--arm") == "plain":
        pytest.skip("--arm plain")
    if not arm.library or not arm.library.exists():
        pytest.skip(f"{arm.library} is not built")
    return arm


@pytest.fixture
def plain(request: pytest.FixtureRequest) -> Arm:
    """The MPI alone."""
    if request.config.getoption("--arm") == "helped":
        pytest.skip("--arm helped")
    return Arm("plain")


@pytest.fixture(params=("plain", "helped"))
def arm(request: pytest.FixtureRequest) -> Arm:
    """Plain, then helped: the same must hold for both."""
    return request.getfixturevalue(request.param)
