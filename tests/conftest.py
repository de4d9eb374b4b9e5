# SPDX-License-Identifier: BSD-3-Clause
"""Options and fixtures of the tests that run MPI programs: over MPI builds, plain and helped.

`--mpi mpich4,abi` selects builds. `--arm helped|plain|both` selects arms. `--library` names the
library to preload (build/lib/libmanyhands.so). `--asan` states that this library was built with
AddressSanitizer, whose runtime must come first. `--no-heap` runs without the shared heap. Tests
marked `slow` run with `--slow` only. `under(NAMES)` names the builds of a test.

Only tests that will run are generated. A test with the fixture `mpi` exists for each installed
build that the options and its mark name. A test without an arm or a build is deselected.
tests/mpi/test_builds.py reports missing builds.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from harness.launch import LIBRARY, Arm, heap_of, without_heap
from harness.selection import BUILD_NAMES, BUILDS, NO_BUILD, wanted_arms, wanted_builds
from manyhands_bench.mpis import MpiBuild

# With these variables, Open MPI takes at once what it would choose within a machine. Without them,
# the search for networks takes 0.2 s of a rank's start in version 4, and 1 s in version 5.
OPEN_MPI_WITHIN_A_MACHINE = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "^ofi"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("MPI programs")
    group.addoption("--mpi", default=",".join(BUILD_NAMES), help="names of MPI builds, by commas")
    group.addoption("--arm", default="helped", choices=("plain", "helped", "both"))
    group.addoption("--library", type=Path, default=LIBRARY, help="the library to put in front")
    group.addoption("--asan", action="store_true", help="the library has AddressSanitizer in it")
    group.addoption("--no-heap", action="store_true", help="as with MH_HEAP=off in helped runs")
    group.addoption("--profiled", action="store_true", help="with MH_PROFILE in helped runs")
    group.addoption("--slow", action="store_true", help="the tests marked slow as well")
    group.addoption("--fuzz-seed", type=int, default=None, help="one seed instead of many")
    group.addoption("--fuzz-new-seed", action="store_true", help="one that was never used")
    group.addoption("--fuzz-rounds", type=int, default=None, help="rounds of a fuzz run")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.fuzz_new_seed and config.option.fuzz_seed is None:
        config.option.fuzz_seed = int.from_bytes(os.urandom(4), "big")
    for name, value in OPEN_MPI_WITHIN_A_MACHINE.items():
        os.environ.setdefault(name, value)
    config.addinivalue_line("markers", "slow: too long for continuous integration")
    config.addinivalue_line("markers", "under(*names): for these MPI builds alone")


def given(metafunc: pytest.Metafunc) -> set[str]:
    """Returns the arguments whose values come from marks of the test."""
    marks = metafunc.definition.iter_markers("parametrize")
    names = [mark.args[0] for mark in marks]
    return {
        word.strip()
        for name in names
        for word in (name.split(",") if isinstance(name, str) else name)
    }


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if hasattr(metafunc.module, "pytest_generate_tests"):
        return  # the module generates its own pairs of builds and arms
    asked = set(metafunc.fixturenames) - given(metafunc)
    if "mpi" in asked:
        under = metafunc.definition.get_closest_marker("under")
        builds = wanted_builds(metafunc.config, under.args if under else BUILD_NAMES)
        metafunc.parametrize("mpi", builds or [NO_BUILD], indirect=True)
    if "arm" in asked:
        metafunc.parametrize("arm", wanted_arms(metafunc.config), indirect=True)


def left_out(item: pytest.Item) -> bool:
    """Returns whether the options exclude this test, or no build is left for it."""
    if item.get_closest_marker("slow") and not item.config.getoption("--slow"):
        return True
    if {"plain", "helped"} & set(item.fixturenames) - set(wanted_arms(item.config)):
        return True
    build = item.callspec.params.get("mpi") if hasattr(item, "callspec") else None
    under = item.get_closest_marker("under")  # a mark of the test or of its parameters
    return build == NO_BUILD or (under is not None and build not in under.args)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    out = [item for item in items if left_out(item)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if not left_out(item)]


def _asan_runtime(build: MpiBuild) -> Path:
    command = ["gcc", "-print-file-name=libasan.so"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return Path(found).resolve()


def helped_arm(config: pytest.Config, build: MpiBuild) -> Arm:
    library = Path(config.getoption("--library")).resolve()
    if config.getoption("--asan"):  # the heap is off in programs with a sanitizer
        settings = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1"}
        return Arm("helped", library, (_asan_runtime(build),), settings)
    profile = {"MH_PROFILE": os.devnull} if config.getoption("--profiled") else {}
    arm = Arm("helped", library, (heap_of(library),), profile)
    return without_heap(arm) if config.getoption("--no-heap") else arm


@pytest.fixture
def mpi(request: pytest.FixtureRequest) -> MpiBuild:
    """Returns an MPI build; the test runs once for each of its builds."""
    return BUILDS[request.param]


@pytest.fixture
def helped(request: pytest.FixtureRequest, mpi: MpiBuild) -> Arm:
    """Returns the arm with the library preloaded."""
    arm = helped_arm(request.config, mpi)
    assert arm.library is not None
    if not arm.library.exists():
        pytest.fail(f"{arm.library} is not built: run make build", pytrace=False)
    return arm


@pytest.fixture
def plain() -> Arm:
    """Returns the arm with the MPI library alone."""
    return Arm("plain")


@pytest.fixture
def arm(request: pytest.FixtureRequest) -> Arm:
    """Returns the plain arm, then the helped arm: the test must pass with both."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory for all parallel tests of this run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
