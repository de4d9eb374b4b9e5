# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh` from an install prefix instead of the checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, environment


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Makes the files that `cmake --install` and pip leave, without the library."""
    package = tmp_path / "lib" / "python3" / "site-packages" / "manyhands"
    shutil.copytree(ROOT / "cli" / "manyhands", package)
    (tmp_path / "share" / "manyhands").mkdir(parents=True)
    shutil.copy(ROOT / "src" / "base" / "settings.json", tmp_path / "share" / "manyhands")
    return tmp_path


def mh(prefix: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = str(prefix / "lib" / "python3" / "site-packages")
    return subprocess.run(
        [sys.executable, "-m", "manyhands.main", *words],
        env=environment(PYTHONPATH=path),
        cwd=prefix,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("folder", ["lib", "lib64", "lib/x86_64-linux-gnu"])
def test_the_library_of_the_prefix_is_found(prefix: Path, folder: str) -> None:
    library = prefix / folder / "libmanyhands.so"
    library.parent.mkdir(exist_ok=True)
    library.touch()
    assert mh(prefix, "preload").stdout.strip() == str(library)


def test_a_path_that_cannot_be_preloaded_is_refused(prefix: Path) -> None:
    moved = prefix / "my code"
    moved.mkdir()
    (prefix / "lib").rename(moved / "lib")
    (prefix / "share").rename(moved / "share")
    (moved / "lib" / "libmanyhands.so").touch()
    result = mh(moved, "preload")
    assert result.returncode == 1
    assert "cannot be preloaded" in result.stderr
    assert result.stdout == ""


def test_a_missing_library_is_explained(prefix: Path) -> None:
    result = mh(prefix, "preload")
    assert result.returncode == 1
    assert "libmanyhands.so is in none of the usual places" in result.stderr


def test_the_table_of_the_prefix_is_found(prefix: Path) -> None:
    assert json.loads(mh(prefix, "config", "--json").stdout)["settings"]
