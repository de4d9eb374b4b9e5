# SPDX-License-Identifier: BSD-3-Clause
"""Assembles the wheel `manyhands`: the Python packages with libraries, programs and data inside.

`make wheel` runs this script after the target wheel-files. Inside the wheel, the package
`manyhands` is an install prefix (lib, bin, share), and `mh` finds its files as in any other prefix.
The tool auditwheel chooses the platform tag: the oldest glibc on which every library loads.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wheel.wheelfile import WheelFile

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
# Licences of the code that is linked into the libraries: its name in the wheel, and the file with
# the text.
LICENCES = {
    "hwloc": ROOT / ".hwloc" / "COPYING",
    "fmt": Path("/usr/share/doc/libfmt-dev/copyright"),
    "nlohmann-json": Path("/usr/share/doc/nlohmann-json3-dev/copyright"),
    "gcc": Path("/usr/share/doc/libgcc-s1/copyright"),
}


def run(*command: str | Path) -> None:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"  # auditwheel calls patchelf
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


def python_packages(folder: Path) -> Path:
    """Builds the Python packages of cli/ as a wheel, and returns the folder with its unpacked
    contents.
    """
    source = folder / "source"
    run(sys.executable, ROOT / "packaging" / "copy_python.py", source)
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    run(sys.executable, "-m", "pip", *words, source)
    made = next(folder.glob("*.whl"))
    contents = folder / "contents"
    shutil.unpack_archive(made, contents, "zip")
    return contents


def add_files(contents: Path, files: Path) -> None:
    """Add libraries, programs, data, licences and manual pages."""
    package = contents / "manyhands"
    for name in ("lib", "bin"):
        shutil.copytree(files / name, package / name)
    share = package / "share" / "manyhands"
    (share / "licences").mkdir(parents=True)
    shutil.copy(ROOT / "src" / "base" / "settings.json", share)
    for name, text in LICENCES.items():
        if text.exists():
            shutil.copy(text, share / "licences" / f"{name}.txt")
    metadata = next(contents.glob("*.dist-info"))
    manual = contents / metadata.name.replace(".dist-info", ".data") / "data/share/man/man1"
    manual.mkdir(parents=True)
    run(sys.executable, ROOT / "docs" / "make_man.py", manual)
    for page in manual.iterdir():
        page.with_name(f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()


def as_platform_wheel(contents: Path, out: Path) -> Path:
    """Pack the contents as a wheel of this platform, for any Python 3."""
    metadata = next(contents.glob("*.dist-info"))
    tags = (metadata / "WHEEL").read_text()
    tags = tags.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    (metadata / "WHEEL").write_text(tags.replace("py3-none-any", "py3-none-linux_x86_64"))
    made = out / f"{metadata.stem}-py3-none-linux_x86_64.whl"
    with WheelFile(made, "w") as wheel:
        wheel.write_files(contents)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=Path, default=ROOT / "build/packaging/wheel/files")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mh-wheel-") as scratch:
        contents = python_packages(Path(scratch))
        add_files(contents, options.files)
        made = as_platform_wheel(contents, Path(scratch))
        fixed = Path(scratch) / "fixed"
        run(BIN / "auditwheel", "repair", "--wheel-dir", fixed, made)
        (result,) = fixed.glob("*.whl")
        options.out.mkdir(parents=True, exist_ok=True)
        shutil.copy(result, options.out)
    print(f"{options.out / result.name}: {(options.out / result.name).stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
