# SPDX-License-Identifier: BSD-3-Clause
"""Tests the Debian package, the module file, the recipes and the manual pages."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness.steps import succeeded

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
LIMIT_S = 200
pytestmark = pytest.mark.timeout(LIMIT_S)


# --- the Debian package -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("dpkg-shlibdeps") is None:
        pytest.skip("dpkg-dev is not installed")
    folder = tmp_path_factory.mktemp("package") / "source"
    shutil.copytree(PACKAGING / "debian", folder / "debian")
    succeeded(["debian/rules", "binary", f"SOURCE={ROOT}"], cwd=folder)
    return next(folder.parent.glob("manyhands_*_amd64.deb"))


@pytest.fixture(scope="module")
def unpacked(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    succeeded(["dpkg-deb", "-x", package, folder])
    return folder


def field(package: Path, name: str) -> str:
    return succeeded(["dpkg-deb", "--field", package, name]).strip()


def test_the_package_depends_on_what_its_libraries_load(package: Path) -> None:
    assert field(package, "Package") == "manyhands"
    depends = {word.split()[0] for word in field(package, "Depends").split(", ")}
    assert {"libc6", "libhwloc15", "libstdc++6", "python3"} <= depends
    assert not depends & {"mpich", "libmpich12", "libopenmpi3"}


def test_the_package_has_all_parts(unpacked: Path) -> None:
    wanted = [f"usr/bin/{name}" for name in ("mh", "mhcc", "mhc++", "mhfort", "mh-tune", "mh-top")]
    wanted += [f"usr/lib/libmanyhands{name}.so" for name in ("", "-heap", "-mpich", "-openmpi")]
    wanted += ["usr/lib/libmanyhands-ult.so.0.1", "usr/lib/pkgconfig/manyhands-lci.pc"]
    wanted += ["usr/include/manyhands/tasks.hpp", "usr/share/man/man1/mh-run.1.gz"]
    wanted += ["usr/share/modulefiles/manyhands/0.1.0", "usr/share/doc/manyhands/copyright"]
    assert [name for name in wanted if not (unpacked / name).exists()] == []


def test_the_commands_of_the_package_use_its_own_parts(unpacked: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MH_", "PYTHON"))}
    mh = [sys.executable, unpacked / "usr/bin/mh"]
    preload = succeeded([*mh, "preload"], env=clean).strip().split(":")
    libraries = [unpacked / "usr/lib" / f"libmanyhands{name}.so" for name in ("-heap", "")]
    assert preload == [str(path) for path in libraries]
    assert "MH_THRESHOLD" in succeeded([*mh, "config"], env=clean)
    said = succeeded([sys.executable, unpacked / "usr/bin/mhcc", "--help"], env=clean)
    assert said.startswith("usage: mhcc ")


# --- the module file --------------------------------------------------------------------------

# Tcl procedures with the names of the commands in a module file. Each prints its words, so the test
# sees what the file does.
COMMANDS = """
proc conflict {name} {}
proc module-whatis {text} {puts "whatis $text"}
proc prepend-path {name folder} {puts "$name $folder"}
source [lindex $argv 0]
ModulesHelp
"""


def test_the_module_file_names_folders_of_the_prefix(tmp_path: Path) -> None:
    prefix = tmp_path / "a prefix"
    for part in ("preload", "ult"):
        succeeded(["cmake", "--install", ROOT / "build", "--component", part, "--prefix", prefix])
    file = prefix / "share/modulefiles/manyhands/0.1.0"
    assert file.read_text().startswith("#%Module1.0\n") and "@" not in file.read_text()
    if shutil.which("tclsh") is None:
        pytest.skip("tclsh is not installed")
    (tmp_path / "commands.tcl").write_text(COMMANDS)
    said = succeeded(["tclsh", tmp_path / "commands.tcl", file]).splitlines()
    folders = dict(line.split(" ", 1) for line in said)
    assert folders["PATH"] == f"{prefix}/bin"
    assert folders["CMAKE_PREFIX_PATH"] == str(prefix)
    for name in ("PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CPATH"):
        assert Path(folders[name]).is_dir(), name


# --- versions, and the recipes of EasyBuild and Spack -----------------------------------------


def version() -> str:
    text = (ROOT / "pyproject.toml").read_text()
    return re.findall(r'^version = "(.*)"$', text, re.MULTILINE)[0]


def test_all_files_name_the_same_version() -> None:
    places = {
        "CMakeLists.txt": rf"project\(manyhands VERSION {version()} ",
        "cmake/common.cmake": rf"set\(MH_VERSION {version()}\)",
        "packaging/debian/changelog": rf"manyhands \({version()}\)",
        "packaging/spack/packages/manyhands/package.py": rf'version\("{version()}"\)',
        "packaging/easybuild/Manyhands-0.1.0-GCCcore-13.2.0.eb": f"version = '{version()}'",
    }
    wrong = [f for f, text in places.items() if not re.search(text, (ROOT / f).read_text())]
    assert wrong == []


def test_the_easyconfig_is_a_list_of_values() -> None:
    (recipe,) = PACKAGING.glob("easybuild/*.eb")
    values = {
        statement.targets[0].id: ast.literal_eval(statement.value)
        for statement in ast.parse(recipe.read_text()).body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
    tool = values["toolchain"]
    assert recipe.stem == f"{values['name']}-{values['version']}-{tool['name']}-{tool['version']}"
    makefile = (ROOT / "Makefile").read_text()
    assert f"\n{values['buildopts']}:" in makefile and "PREFIX ?=" in makefile


def test_the_spack_recipe_is_python() -> None:
    recipe = PACKAGING / "spack/packages/manyhands/package.py"
    (package,) = [n for n in ast.parse(recipe.read_text()).body if isinstance(n, ast.ClassDef)]
    assert package.name == "Manyhands"


# --- manual pages -----------------------------------------------------------------------------


def test_manual_pages_say_what_the_help_says(tmp_path: Path) -> None:
    succeeded([sys.executable, ROOT / "docs" / "make_man.py", tmp_path])
    commands = (ROOT / "cli/manyhands/commands").glob("[a-z]*.py")
    names = {"mh", "mhcc", "mhc++", "mhfort", *(f"mh-{path.stem}" for path in commands)}
    assert {page.stem for page in tmp_path.iterdir()} == names
    run = (tmp_path / "mh-run.1").read_text()
    assert "\\fB\\-\\-dry\\-run\\fR" in run and ".SH EXAMPLE\n\\fBmh run" in run
    assert "\\-\\-mpi" in (tmp_path / "mhcc.1").read_text()
    if shutil.which("groff"):
        for page in tmp_path.iterdir():
            told = subprocess.run(
                ["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True
            )
            assert (told.returncode, told.stderr) == (0, ""), page.name
