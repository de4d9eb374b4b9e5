# SPDX-License-Identifier: BSD-3-Clause
"""Expands macros in the directives of C and C++.

A preprocessor expands the words of OpenMP's pragmas, but not those of an unknown pragma. `-dD`
leaves the definitions in the preprocessed text, so the macros defined at a directive are known. The
compiler's preprocessor then runs once more, on the directives that name a macro.
"""

from __future__ import annotations

import re
from collections.abc import Callable

DEFINITION = re.compile(r"^#(define|undef) (\w+)([^\n]*)", re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*")
MARK = "__mh_ws_directive_"

Preprocess = Callable[[str], str]


def in_use(texts: list[str], table: dict[str, str]) -> set[str]:
    """The macros that these texts name, and the macros that those macros name in turn."""
    used: set[str] = set()
    pending = [word for text in texts for word in WORD.findall(text)]
    while pending:
        word = pending.pop()
        if word in table and word not in used:
            used.add(word)
            pending.extend(WORD.findall(table[word]))
    return used


def tables_at(text: str, places: list[int]) -> list[dict[str, str]]:
    """For each of these ascending positions in the text, the definitions that hold at it."""
    table: dict[str, str] = {}
    tables: list[dict[str, str]] = []
    definitions = DEFINITION.finditer(text)
    following = next(definitions, None)
    for place in places:
        while following is not None and following.start() < place:
            table.pop(following.group(2), None)
            if following.group(1) == "define":
                table[following.group(2)] = following.group(3)
            following = next(definitions, None)
        tables.append(dict(table))
    return tables


def expanded(
    text: str, directives: list[tuple[int, str]], preprocess: Preprocess
) -> dict[int, str]:
    """The directives, by position, with macros replaced. `preprocess` runs the compiler's -E."""
    named = {word for _, directive in directives for word in WORD.findall(directive)}
    if not named & {match.group(2) for match in DEFINITION.finditer(text)}:
        return dict(directives)
    tables = tables_at(text, [place for place, _ in directives])
    lines: list[str] = []
    for (place, directive), table in zip(directives, tables, strict=True):
        used = sorted(in_use([directive], table))
        lines += [f"#undef {name}\n#define {name}{table[name]}" for name in used]
        lines.append(f"{MARK}{place}({directive})")
        lines += [f"#undef {name}" for name in used]
    answer = " ".join(line for line in preprocess("\n".join(lines)).splitlines() if line[:1] != "#")
    parts = re.split(rf"{MARK}(\d+)\s*", answer)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {int(place): part.strip()[1:-1] for place, part in pairs}
