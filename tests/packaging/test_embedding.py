# SPDX-License-Identifier: BSD-3-Clause
"""Tests the libraries of libs/ in a project outside the tree: installed, or as a subproject.

The project is a copy of examples/embed. The installed libraries are those of build/.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from harness.steps import done, succeeded

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
NAMES = ("ult", "lci", "tasks")
LIMIT_S = 300
pytestmark = pytest.mark.timeout(LIMIT_S)
PRINTED = {
    "sum": "the sum is 499500\n",
    "sum-c": "the sum is 499500\n",
    "squares": "the sum is 333833500\n",
}
OF_COMPONENT = {"ult": ("sum", "sum-c"), "tasks": ("squares",), "lci": ()}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    for name in NAMES:
        install = ["cmake", "--install", ROOT / "build", "--component", name]
        succeeded([*install, "--prefix", folder])
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples" / "embed", tmp_path / "embed"))


def configured(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = ["cmake", "-S", project, "-B", project / "build", "-G", "Ninja", *options]
    return done([*words, "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF"])


def built(project: Path, components: tuple[str, ...], *options: str) -> None:
    """Builds the project with these components and runs its programs."""
    done = configured(project, f"-DCOMPONENTS={';'.join(components)}", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    succeeded(["cmake", "--build", project / "build"])
    for program in (name for component in components for name in OF_COMPONENT[component]):
        assert succeeded([project / "build" / program]) == PRINTED[program]
    if "lci" in components:
        assert ring(project / "build" / "ring", project) == "rank 0 of 2 received 1\n"


def ring(program: Path, folder: Path) -> str:
    where = {**os.environ, "MH_LCI_SIZE": "2", "MH_LCI_ROOT": str(folder / "root")}
    second = subprocess.Popen([program], env={**where, "MH_LCI_RANK": "1"})
    try:
        return succeeded([program], env={**where, "MH_LCI_RANK": "0"})
    finally:
        second.wait(timeout=30)


@pytest.mark.parametrize("components", [*((name,) for name in NAMES), NAMES], ids="-".join)
def test_an_installed_component_is_found(
    prefix: Path, project: Path, components: tuple[str, ...]
) -> None:
    built(project, components, f"-DCMAKE_PREFIX_PATH={prefix}")


def test_a_component_that_is_not_installed_is_named(project: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    install = ["cmake", "--install", ROOT / "build", "--component", "ult", "--prefix", alone]
    succeeded(install)
    done = configured(project, f"-DCMAKE_PREFIX_PATH={alone}", "-DCOMPONENTS=ult;tasks")
    assert done.returncode != 0
    assert "component tasks is not installed" in " ".join(done.stderr.split())


def test_the_commands_of_the_readme_use_pkg_config(prefix: Path, project: Path) -> None:
    page = (project / "README.md").read_text()
    (commands,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    environment = {**os.environ, "PREFIX": str(prefix)}
    succeeded(["bash", "-e", "-c", commands], cwd=project, env=environment)
    for program, text in PRINTED.items():
        assert succeeded([project / program]) == text
    assert ring(project / "ring", project) == "rank 0 of 2 received 1\n"


def test_a_program_asks_for_the_version_that_it_was_linked_with(prefix: Path) -> None:
    for name in NAMES:
        library = prefix / "lib" / f"libmanyhands-{name}.so"
        dynamic = succeeded(["readelf", "--dynamic", library])
        assert f"Library soname: [libmanyhands-{name}.so.0.1]" in dynamic
        assert str(ROOT) not in dynamic


def test_two_libraries_are_subprojects_that_need_neither_fmt_nor_python(project: Path) -> None:
    absent = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("fmt", "Python3")]
    quickly = "-DCMAKE_BUILD_TYPE=Debug"
    built(project, ("ult", "tasks"), f"-DMANYHANDS_SOURCE={ROOT}", quickly, *absent)


def test_fetch_content_brings_the_libraries_alone(project: Path) -> None:
    source = f"-DFETCHCONTENT_SOURCE_DIR_MANYHANDS={ROOT}"
    done = configured(project, "-DMANYHANDS_FETCH=ON", source)
    assert done.returncode == 0, done.stdout + done.stderr
    targets = succeeded(["ninja", "-C", project / "build", "-t", "targets", "all"])
    assert "libmanyhands-lci.so" in targets and "sum-c:" in targets
    assert not re.search(r"mh_core|manyhands-mpich|unit_|mh-tune", targets)


# --- the public headers -----------------------------------------------------------------------

HEADERS = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.h*"))
NEED_MPI = ("manyhands/tasks.hpp", "manyhands/tasks/mpi.hpp")
MPI = ROOT / ".mpi" / "mpich5" / "include"


def test_each_public_header_compiles_alone(tmp_path: Path) -> None:
    strict = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", f"-I{INCLUDE}"]
    for header in HEADERS:
        languages = [("c++", "-std=c++20")]
        if header.endswith(".h"):
            languages += [("c", "-std=c99"), ("c++", "-std=c++11")]
        mpi = [f"-isystem{MPI}"] if header in NEED_MPI else []
        for language, standard in languages:
            source = tmp_path / "source"
            source.write_text(f"#include <{header}>\n#include <{header}>\n")
            command = ["c++", "-x", language, standard, "-fsyntax-only", *strict, *mpi, source]
            told = done(command)
            assert told.returncode == 0, f"{header} as {standard}: {told.stderr}"


def test_each_public_header_is_installed(prefix: Path) -> None:
    folder = prefix / "include"
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.h*")) == HEADERS
