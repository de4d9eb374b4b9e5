# SPDX-License-Identifier: BSD-3-Clause
"""Options and fixtures of the tests that run MPI programs: over MPI builds, plain and helped.

`--mpi mpich4,abi` runs under these builds alone; `--arm helped|plain|both`; `--library` is the
library to put in front (build/lib/libmanyhands.so); `--asan` says it was built with
AddressSanitizer, so that its runtime has to come first; `--heap` runs with the shared heap. Tests
marked `slow` run with `--slow` only; `under(NAMES)` names the builds that a test is for.

Only what will run is generated: a test with the fixture `mpi` is made for the builds that are
asked for, are installed and that its mark names. A test of an arm that is not asked for, and one
that no build is left for, is deselected. tests/mpi/test_builds.py says which builds are missing.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from harness.launch import LIBRARY, Arm, with_heap
from harness.selection import BUILD_NAMES, BUILDS, NO_BUILD, wanted_arms, wanted_builds
from manyhands_bench.mpis import MpiBuild

# What Open MPI takes within a machine anyway. To look for networks first takes version 4 0.2 s of a
# rank's start, and version 5 a second.
OPEN_MPI_WITHIN_A_MACHINE = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "^ofi"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("MPI programs")
    group.addoption("--mpi", default=",".join(BUILD_NAMES), help="names of MPI builds, by commas")
    group.addoption("--arm", default="helped", choices=("plain", "helped", "both"))
    group.addoption("--library", type=Path, default=LIBRARY, help="the library to put in front")
    group.addoption("--asan", action="store_true", help="the library has AddressSanitizer in it")
    group.addoption("--heap", action="store_true", help="with MH_HEAP=on in helped runs")
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
    """The arguments that marks of the test give values to."""
    marks = metafunc.definition.iter_markers("parametrize")
    names = [mark.args[0] for mark in marks]
    return {
        word.strip()
        for name in names
        for word in (name.split(",") if isinstance(name, str) else name)
    }


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if hasattr(metafunc.module, "pytest_generate_tests"):
        return  # it pairs builds and arms with what it has
    asked = set(metafunc.fixturenames) - given(metafunc)
    if "mpi" in asked:
        under = metafunc.definition.get_closest_marker("under")
        builds = wanted_builds(metafunc.config, under.args if under else BUILD_NAMES)
        metafunc.parametrize("mpi", builds or [NO_BUILD], indirect=True)
    if "arm" in asked:
        metafunc.parametrize("arm", wanted_arms(metafunc.config), indirect=True)


def left_out(item: pytest.Item) -> bool:
    """Whether the options leave this test out, or no build is there for it."""
    if item.get_closest_marker("slow") and not item.config.getoption("--slow"):
        return True
    if {"plain", "helped"} & set(item.fixturenames) - set(wanted_arms(item.config)):
        return True
    build = item.callspec.params.get("mpi") if hasattr(item, "callspec") else None
    under = item.get_closest_marker("under")  # of the values that the test is given, too
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
    if config.getoption("--heap"):
        return with_heap(Arm("helped", library))
    if not config.getoption("--asan"):
        return Arm("helped", library)
    settings = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1"}
    return Arm("helped", library, (_asan_runtime(build),), settings)


@pytest.fixture
def mpi(request: pytest.FixtureRequest) -> MpiBuild:
    """Every MPI build that the test is made for."""
    return BUILDS[request.param]


@pytest.fixture
def helped(request: pytest.FixtureRequest, mpi: MpiBuild) -> Arm:
    """With the library in front."""
    arm = helped_arm(request.config, mpi)
    assert arm.library is not None
    if not arm.library.exists():
        pytest.fail(f"{arm.library} is not built: run make build", pytrace=False)
    return arm


@pytest.fixture
def plain() -> Arm:
    """The MPI alone."""
    return Arm("plain")


@pytest.fixture
def arm(request: pytest.FixtureRequest) -> Arm:
    """Plain, then helped: the same must hold for both."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all that run side by side, made for this run of the tests."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
