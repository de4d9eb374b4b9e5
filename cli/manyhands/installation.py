# SPDX-License-Identifier: BSD-3-Clause
"""The paths of this installation.

An installation is of one of two kinds. In a *checkout*, this package is in cli/ below a root with
build/lib. In an *install prefix*, the library is in PREFIX/lib and the data in
PREFIX/share/manyhands. This package is then anywhere below PREFIX, or the Python that runs it is in
PREFIX.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from manyhands import say

LIBRARY = "libmanyhands.so"
HEAP = "libmanyhands-heap.so"  # beside LIBRARY; preloaded as well, unless MH_HEAP=off
SETTINGS = "settings.json"


def checkout() -> Path | None:
    """The root of the checkout that contains this package, or None for an install prefix."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "src" / "base").is_dir() and (root / "cli").is_dir() else None


def prefixes() -> Iterator[Path]:
    """Possible install prefixes, the most likely first."""
    yield from (p for p in Path(__file__).resolve().parents if p.name not in ("lib", "lib64"))
    yield Path(sys.prefix)
    yield Path(sys.argv[0]).resolve().parent.parent
    yield from (Path("/usr/local"), Path("/usr"))


def library() -> Path | None:
    """The front, libmanyhands.so, which programs preload; None if it is not installed."""
    root = checkout()
    if root is not None:
        built = root / "build" / "lib" / LIBRARY
        return built if built.exists() else None
    for prefix in prefixes():
        for folder in ("lib", "lib64", "lib/x86_64-linux-gnu"):
            if (prefix / folder / LIBRARY).exists():
                return prefix / folder / LIBRARY
    return None


def heap(front: Path) -> Path | None:
    """The library of the shared heap in the folder of `front`; None if it is not installed."""
    beside = front.with_name(HEAP)
    return beside if beside.exists() else None


def preloaded(front: Path, wanted: str | None = None) -> list[Path]:
    """The libraries to preload, in order: the heap's library unless MH_HEAP is off, then `front`.

    `wanted` replaces the value of MH_HEAP.
    """
    if any(sign in str(front) for sign in " :\t\n"):
        say.fail(f"{front} cannot be preloaded: no path in LD_PRELOAD may have blanks or colons")
    mode = os.environ.get("MH_HEAP", "") if wanted is None else wanted
    if not wants_heap(mode.strip()):
        return [front]
    beside = heap(front)
    if beside is None and mode.strip():
        note_once(f"MH_HEAP={mode} is ignored: there is no {HEAP} beside {front}")
    return [beside, front] if beside else [front]


def wants_heap(mode: str) -> bool:
    """True if this value of MH_HEAP, perhaps empty, asks for the heap. Prints a note if it is
    wrong.
    """
    if mode not in ("", "off", "auto", "on"):
        note_once(
            f"MH_HEAP={mode} is not accepted, so the heap is off; "
            "MH_HEAP takes one of off, auto, on (default auto)"
        )
    return mode in ("", "auto", "on")


@functools.cache
def note_once(message: str) -> None:
    say.note(message)


def needed_library(given: Path | None, otherwise: str) -> Path:
    """The library to preload: the given one, else that of this installation.

    Ends with an error if the library does not exist; `otherwise` says what works without it.
    """
    found = given or library()
    if found is None:
        say.fail(f"{what_is_missing()} ({otherwise})")
    if not found.exists():
        say.fail(f"{found} does not exist: name the library that `mh preload` prints", say.USAGE)
    return found.resolve()


def program(name: str) -> Path | None:
    """The path of a program of this installation, such as mh-tune; None if it is not installed."""
    root = checkout()
    places = [root / "build"] if root is not None else list(prefixes())
    found = (place / "bin" / name for place in places)
    return next((candidate for candidate in found if candidate.exists()), None)


def how_to_get_programs() -> str:
    return "run `make build` in the checkout" if checkout() is not None else "reinstall Manyhands"


def settings_table() -> Path | None:
    root = checkout()
    if root is not None:
        table = root / "src" / "base" / SETTINGS
        return table if table.exists() else None
    for prefix in prefixes():
        table = prefix / "share" / "manyhands" / SETTINGS
        if table.exists():
            return table
    return None


def embedded_mpi() -> list[Path]:
    """Prefixes of the MPI libraries that scripts/bootstrap put into the checkout, the default one
    first.
    """
    root = checkout()
    folder = root / ".mpi" if root is not None else None
    if folder is None or not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if (p / "bin" / "mpiexec").exists())


def what_is_missing() -> str:
    """The message for a user whose installation has no library."""
    if checkout() is not None:
        return "the library is not built yet: run `make build` in the checkout"
    return f"{LIBRARY} is in none of the usual places below {sys.prefix}: reinstall Manyhands"
