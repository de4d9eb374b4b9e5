# SPDX-License-Identifier: BSD-3-Clause
"""Files and functions that comments and pages name exist."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
FILE = re.compile(r"(?<![\w./~$<{*-])([\w-]+(?:/[\w-]+)*\.(?:hpp|cpp|c|h|py|json|md))\b(?![\w(])")
FENCED = re.compile(r"```.*?```", re.DOTALL)
CALL = re.compile(r"\b([a-z_][a-z0-9_]*(?:::[a-z_][a-z0-9_]*)*)\(\)")
# Names in the documentation that are not files of the repository: of MPI, of the C library, and of
# the programs in examples.
NOT_OURS = {
    "mpi.h",
    "mpi_abi.h",
    "mpif.h",
    "omp.h",
    "kmp.h",
    "unistd.h",
    "app.cpp",
    "simulation.py",
    "r.json",
    "run.json",
    "mh-profile.json",
    "profile.json",
}
NOT_OURS |= {
    "mailbox.cpp",
    "squares.cpp",
    "balls.cpp",
    "ring.cpp",
    "sum.cpp",
    "dladdr",
    "posix_fallocate",
    "clone",
    "posix_spawn",
    "popen",
}
# Matches a place in a page that names functions and the file that has them: "`f()` and `g()` in
# `file.hpp`".
IN_FILE = re.compile(r"((?:`[\w:]+\(\)`(?:, | and )?)+) ?(?:both )?in `([\w/.-]+\.(?:hpp|cpp|py))`")
# Files that a build writes with src/mpi/generate.py, so they are not in the repository.
GENERATED = {"next.hpp", "next.cpp", "wrappers.hpp", "wrappers.cpp", "profiled_calls.cpp"}


@cache
def tracked() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in done.stdout.decode().split("\0") if name]


def sources() -> list[Path]:
    rooms = ("src", "libs", "tests", "bench", "examples")
    wanted = {".c", ".cpp", ".h", ".hpp"}
    found = [path for path in tracked() if path.suffix in wanted and path.exists()]
    return [path for path in found if path.relative_to(ROOT).parts[0] in rooms]


def pages() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".md" and path.exists()]


@cache
def endings() -> set[str]:
    """Returns each path of the repository, and every suffix of that path."""
    found = set(GENERATED)
    for path in tracked():
        parts = path.relative_to(ROOT).parts
        found |= {"/".join(parts[i:]) for i in range(len(parts))}
    return found


@cache
def identifiers() -> set[str]:
    """Returns all words of code, without comments."""
    code = "\n".join(COMMENT.sub("", path.read_text()) for path in sources())
    return set(re.findall(r"\b[A-Za-z_]\w*\b", code))


def comments(path: Path) -> str:
    return "\n".join(COMMENT.findall(path.read_text()))


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_named_on_a_page_exist(path: Path) -> None:
    named = set(FILE.findall(path.read_text())) - NOT_OURS
    assert sorted(named - endings()) == []


def test_files_named_in_comments_exist() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        for name in set(FILE.findall(comments(path))) - NOT_OURS - endings()
    }
    assert sorted(missing) == []


def test_functions_named_in_comments_exist() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}()"
        for path in sources()
        for name in set(CALL.findall(comments(path)))
        if name.rpartition("::")[2] not in identifiers() | NOT_OURS
    }
    assert sorted(missing) == []


@cache
def words_of_scripts() -> set[str]:
    """Returns the names in Python and CMake files, which pages name as well."""
    kinds = {".py", ".cmake"}
    scripts = [p for p in tracked() if p.suffix in kinds or p.name == "CMakeLists.txt"]
    text = "\n".join(path.read_text() for path in scripts if path.exists())
    return set(re.findall(r"\b[A-Za-z_]\w*\b", text))


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_functions_named_on_a_page_exist(path: Path) -> None:
    named = {name.rpartition("::")[2] for name in CALL.findall(FENCED.sub("", path.read_text()))}
    assert sorted(named - identifiers() - words_of_scripts() - NOT_OURS) == []


def test_functions_are_in_the_file_that_the_tour_says() -> None:
    pairs = IN_FILE.findall((ROOT / "docs/tour.md").read_text().replace("\n", " "))
    assert len(pairs) > 20
    missing = []
    for functions, name in pairs:
        texts = [
            COMMENT.sub("", path.read_text())
            for path in sources()
            if path.as_posix().endswith("/" + name)
        ]
        for function in CALL.findall(functions):
            word = re.compile(rf"\b{function.rpartition('::')[2]}\b")
            if not any(word.search(text) for text in texts):
                missing.append(f"{function}() in {name}")
    assert missing == []
