# SPDX-License-Identifier: BSD-3-Clause
"""Copies what pip needs to install the Python packages into a new folder.

Usage: python packaging/copy_python.py FOLDER. pip does not install from the checkout itself:
setuptools makes a folder `build` beside the packages, and in the checkout that folder is CMake's.
Modules that have been deleted since would stay in it and be installed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy_python(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "cli", folder / "cli", ignore=left_out)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python packaging/copy_python.py FOLDER")
    copy_python(Path(sys.argv[1]))
