# SPDX-License-Identifier: BSD-3-Clause
"""Each library of libs/ builds alone, by the commands of its README.md, in a separate tree. The
guides of light tasks and LCI take a reader from there to a program, with CMake and pkg-config.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MPI = ROOT / ".mpi" / "mpich5" / "bin"  # compiler and launcher of the program only
# The directories of the repository that each library needs, according to its README.md.
COMMON = ("cmake", "include", "src/base")
NEEDS = {
    "ult": (*COMMON, "libs/ult"),
    "lci": (*COMMON, "libs/ult", "libs/lci"),
    "tasks": (*COMMON, "libs/tasks"),
}
GUIDES = {"ult": ("light-tasks.md", "mailbox"), "lci": ("lci.md", "balls")}
LIMIT_S = 500  # a first build on a busy machine


def block(page: str, language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    assert len(found) == 1, f"one block of {language} is wanted"
    return found[0]


def environment(tree: Path) -> dict[str, str]:
    """Returns settings for a build without optimization, quick if ccache knows the sources."""
    values = dict(os.environ, PATH=f"{MPI}:{os.environ['PATH']}", CMAKE_GENERATOR="Ninja")
    values.update(CMAKE_BUILD_TYPE="Debug", CMAKE_BUILD_PARALLEL_LEVEL="2")
    values.update(CCACHE_BASEDIR=str(tree), CCACHE_NOHASHDIR="1")
    if shutil.which("ccache"):
        values["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    return values


def ranks_of(program: Path, folder: Path, ranks: int) -> str:
    """Runs the program as a job of LCI, if it uses LCI. Returns the output of all ranks."""
    job = {**os.environ, "MH_LCI_SIZE": str(ranks), "MH_LCI_ROOT": str(folder / "root")}
    running = [
        subprocess.Popen(
            [program], env={**job, "MH_LCI_RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(ranks)
    ]
    printed = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0] * ranks
    return "".join(printed)


def follow_guide(library: str, tree: Path, folder: Path) -> None:
    """Follows "Installing the library" and "Building a program" in the guide of the library. `tree`
    has the library, which the README's commands have built; `folder` is for the installed library
    and the program.
    """
    name, program = GUIDES[library]
    page = (ROOT / "docs" / name).read_text()
    sections = [
        page.split(f"## {title}\n")[1].split("\n## ")[0]
        for title in ("Installing the library", "Building a program")
    ]
    project = folder / "project"
    project.mkdir(parents=True)
    whole = page.split("## A complete program\n")[1].split("\n## ")[0]
    (project / f"{program}.cpp").write_text(block(whole, "cpp"))
    (project / "CMakeLists.txt").write_text(block(sections[1], "cmake"))
    settings = {**environment(tree), "HOME": str(folder), "PREFIX": str(folder / "mh")}
    assert "export PREFIX=$HOME/mh" in sections[0]  # for the reader, once; here for each block
    blocks = re.findall(r"```bash\n(.*?)```", "".join(sections), re.DOTALL)
    assert len(blocks) == 3  # the library; the program with CMake; with pkg-config
    for commands, where in zip(blocks, (tree, project, project), strict=True):
        subprocess.run(
            ["bash", "-e", "-c", commands], cwd=where, env=settings, check=True, timeout=LIMIT_S
        )
    promised = re.search(r"It prints `(.*?)`", page)
    assert promised is not None
    for made in (project / "build" / program, project / program):
        printed = ranks_of(made, project, 2 if library == "lci" else 1)
        assert printed.startswith(promised[1] + "\n")


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("library", NEEDS)
def test_the_commands_of_the_readme_and_of_the_guide(library: str, tmp_path: Path) -> None:
    page = (ROOT / "libs" / library / "README.md").read_text()
    program = re.search(r"`(\w+\.cpp)`", page)
    promised = re.search(r"It prints `(.*?)`", page)
    assert program and promised
    tree = tmp_path / "tree"
    for folder in NEEDS[library]:
        shutil.copytree(ROOT / folder, tree / folder)
    (tree / program[1]).write_text(block(page, "cpp"))
    done = subprocess.run(
        ["bash", "-e", "-c", block(page, "bash")],
        cwd=tree,
        env=environment(tree),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == promised[1], done.stdout + done.stderr
    if library == "lci":
        assert re.search(r"libfabric: (found|none); PMIx: (found|none) ", done.stdout)
    if library in GUIDES:
        follow_guide(library, tree, tmp_path / "guide")


@pytest.mark.parametrize("library", NEEDS)
def test_a_readme_is_short_and_leads_to_the_guide(library: str) -> None:
    page = (ROOT / "libs" / library / "README.md").read_text()
    assert page.count("\n") <= 60
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert any("docs/" in link for link in links)
    files = [ROOT / "libs" / library / link.split("#")[0] for link in links]
    assert [file for file in files if not file.exists()] == []


@pytest.mark.parametrize("source", [".", "libs/ult", "libs/lci", "libs/tasks"])
def test_another_processor_is_an_error_of_one_sentence(source: str, tmp_path: Path) -> None:
    command = ["cmake", "-S", str(ROOT / source), "-B", str(tmp_path)]
    command += ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode != 0
    sentence = "Manyhands is for Linux on x86-64, not for Linux on aarch64."
    assert sentence in " ".join(done.stderr.split())
