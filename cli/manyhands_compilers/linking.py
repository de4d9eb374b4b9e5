# SPDX-License-Identifier: BSD-3-Clause
"""Additions to a link: the OpenMP runtime, and the function mh_ws_mark that Fortran loops call.

Objects may have been compiled in earlier calls, so objects and archives are searched for names of
the runtime and of mh_ws_mark. A link without these names stays as it is. Fortran cannot ask whether
a symbol exists, so mh_ws_mark is a function in C, compiled on demand.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

RUNTIME_NAMES = (b"__mh_ws_mark", b"GOMP_", b"__kmpc_")
FORTRAN_NAMES = (b"mh_ws_mark", b"mh_ws_lock")
C_NAMES = b"__mh_ws_"

# C source of the functions that rewritten Fortran loops call. Each function has the name that
# gfortran gives to a Fortran procedure: in lower case, with an underscore at the end.
STUB = r"""
extern int __mh_ws_mark(int, long, int, long) __attribute__((__weak__));
#define HIDDEN __attribute__((__visibility__("hidden")))
HIDDEN int mh_ws_mark_(const int *k, const long long *c, const int *tk, const long long *tc);
HIDDEN int mh_ws_mark_(const int *k, const long long *c, const int *tk, const long long *tc) {
  return __mh_ws_mark ? __mh_ws_mark(*k, (long)*c, *tk, (long)*tc) : 1;
}
extern int omp_get_max_threads(void) __attribute__((__weak__));
HIDDEN int mh_ws_mark_team_(const int *k, const long long *c, const int *tk, const long long *tc);
HIDDEN int mh_ws_mark_team_(const int *k, const long long *c, const int *tk, const long long *tc) {
  if (!__mh_ws_mark && omp_get_max_threads) return omp_get_max_threads();
  return mh_ws_mark_(k, c, tk, tc);
}
extern void __mh_ws_lock(unsigned long long) __attribute__((__weak__));
extern void __mh_ws_unlock(unsigned long long) __attribute__((__weak__));
HIDDEN void mh_ws_lock_(const long long *name);
HIDDEN void mh_ws_unlock_(const long long *name);
HIDDEN void mh_ws_lock_(const long long *name) {
  if (__mh_ws_lock) __mh_ws_lock((unsigned long long)*name);
}
HIDDEN void mh_ws_unlock_(const long long *name) {
  if (__mh_ws_unlock) __mh_ws_unlock((unsigned long long)*name);
}
#define ALIAS(name, of) extern HIDDEN __typeof__(of) name __attribute__((__alias__(#of)));
ALIAS(mh_ws_mark_team, mh_ws_mark_team_) ALIAS(mh_ws_mark_team__, mh_ws_mark_team_)
ALIAS(mh_ws_mark, mh_ws_mark_) ALIAS(mh_ws_mark__, mh_ws_mark_)
ALIAS(mh_ws_lock, mh_ws_lock_) ALIAS(mh_ws_lock__, mh_ws_lock_)
ALIAS(mh_ws_unlock, mh_ws_unlock_) ALIAS(mh_ws_unlock__, mh_ws_unlock_)
"""


class Needs:
    """Additions that a link needs, found in its objects and archives."""

    def __init__(self, openmp: bool = False, fortran: bool = False) -> None:
        self.openmp = openmp
        self.fortran = fortran

    def __bool__(self) -> bool:
        return self.openmp or self.fortran

    def look_into(self, data: bytes) -> None:
        self.openmp = self.openmp or any(name in data for name in RUNTIME_NAMES)
        rest = data.replace(C_NAMES, b"") if b"mh_ws_" in data else b""
        self.fortran = self.fortran or any(name in rest for name in FORTRAN_NAMES)


MEMBER = 60  # bytes of a member's header: 16 for its name, 10 for its size from byte 48 on


def thin_members(path: str, data: bytes) -> list[str]:
    """The files that a thin archive names; such an archive does not contain its members."""
    folder, names, found, at = os.path.dirname(path), b"", [], 8
    while at + MEMBER <= len(data):
        name, size = data[at : at + 16].rstrip(), int(data[at + 48 : at + 58])
        at += MEMBER
        if name == b"//":
            names = data[at : at + size]
        if name in (b"/", b"//", b"/SYM64/"):  # tables, whose contents are in the archive
            at += size + size % 2
        else:
            number = re.match(rb"/(\d+)", name)
            rest = names[int(number.group(1)) :] if number else name
            found.append(os.path.join(folder, os.fsdecode(rest.split(b"/\n")[0].rstrip(b"/"))))
    return found


def passed_to_linker(words: Iterable[str]) -> list[str]:
    """The words as the linker sees them: the parts of `-Wl,...`, and no `-Xlinker`."""
    parts = [word[4:].split(",") if word.startswith("-Wl,") else [word] for word in words]
    return [part for each in parts for part in each if part != "-Xlinker"]


def archives(names: Iterable[str], folders: list[str]) -> list[str]:
    """The archives that -l options name. Shared libraries are left out: they name their needs
    themselves.
    """
    found = []
    for name in names:
        exact = name[1:] if name.startswith(":") else None
        for folder in folders:
            if exact is None and os.path.exists(os.path.join(folder, f"lib{name}.so")):
                break
            path = os.path.join(folder, exact or f"lib{name}.a")
            if os.path.isfile(path):
                found.append(path)
                break
    return found


def read(path: str) -> bytes:
    """The contents of an object or archive. Empty for other files, such as shared libraries, which
    name their needs themselves.
    """
    try:
        with open(path, "rb") as file:
            magic = file.read(20)
            shared = magic[:4] == b"\x7fELF" and magic[16:17] in (b"\x02", b"\x03")
            known = magic[:4] == b"\x7fELF" or magic[:8] in (b"!<arch>\n", b"!<thin>\n")
            data = magic + file.read() if (known or magic[:2] == b"BC") and not shared else b""
    except OSError:
        return b""
    if magic[:8] == b"!<thin>\n":
        return b"".join(read(member) for member in thin_members(path, data) if member != path)
    return data


def needs_of(paths: Iterable[str]) -> Needs:
    needs = Needs()
    for path in paths:
        needs.look_into(read(path))
    return needs
