# SPDX-License-Identifier: BSD-3-Clause
"""Writes files.md, the list of source files, from the first sentence of each file.

Run it after a file was added, moved or described anew: python docs/make_files.py. Standard library
only. Tests check that files.md is what this script writes. A source without a paragraph of its own
belongs to the header of the same name and is left out.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
ROOTS = ("src", "libs", "include")
SUFFIXES = {".hpp", ".h", ".cpp", ".c", ".S", ".py"}

HEAD = """# Files

<!-- Written by docs/make_files.py from the files' first sentences: change those, not this file. -->

What is in which file, folder by folder. The [tour](tour.md) says how they work together, and
`CONTRIBUTING.md` which folder may use which.
"""

COMMENT_MARK = re.compile(r"^\s*(?://|/\*+|\*+/?|#(?!\w))\s?")
END_OF_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z*`(]|\w+[/.(]|$)")


def opening(path: Path) -> str:
    """The first paragraph of the file's own comment, on one line; empty if there is none."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0]
    words: list[str] = []
    for line in text.splitlines():
        is_comment = COMMENT_MARK.match(line) is not None
        content = COMMENT_MARK.sub("", line).removesuffix("*/").strip() if is_comment else ""
        if "SPDX-License-Identifier" in line:
            continue
        if not content:
            if words or not is_comment:
                break
            continue
        words.append(content)
    return " ".join(words)


def sentence(path: Path) -> str:
    first = END_OF_SENTENCE.split(" ".join(opening(path).split()), maxsplit=1)[0]
    return first.removesuffix(".").removesuffix(":").replace("<", "&lt;")


def sources(root: Path) -> list[Path]:
    return [path for path in sorted(root.rglob("*")) if path.suffix in SUFFIXES and path.is_file()]


def section(folder: Path, paths: list[Path]) -> str:
    lines = [f"* `{path.name}`: {text}\n" for path in paths if (text := sentence(path))]
    return f"\n## {folder.relative_to(ROOT)}\n\n" + "".join(lines) if lines else ""


def page() -> str:
    folders: dict[Path, list[Path]] = {}
    for root in ROOTS:
        for path in sources(ROOT / root):
            folders.setdefault(path.parent, []).append(path)
    return HEAD + "".join(section(folder, folders[folder]) for folder in sorted(folders))


if __name__ == "__main__":
    (DOCS / "files.md").write_text(page(), encoding="utf-8")
