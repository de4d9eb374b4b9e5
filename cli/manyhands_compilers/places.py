# SPDX-License-Identifier: BSD-3-Clause
"""The origin of a line of preprocessed text, and error messages that name it.

A *line marker*, `# 12 "file.c"`, gives file and line of the next line. Every insertion into a text
is followed by a marker, so that compilers and debuggers refer to the user's own lines.
"""

from __future__ import annotations

import re

MARKER = re.compile(r'^#(?:line)? *(\d+) "((?:[^"\\\n]|\\.)*)"[^\n]*$', re.MULTILINE)


class Faults(Exception):
    """All faults in the directives of a file, a line for each."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def fault(place: tuple[str, int], message: str) -> str:
    file, line = place
    return f"{file}:{line}: error: {message}"


def unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def marker(place: tuple[str, int]) -> str:
    file, line = place
    escaped = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'# {line} "{escaped}"'


def place_of(text: str, at: int) -> tuple[str, int]:
    """File and line number, in the user's source, of the line that contains position `at`."""
    start = text.rfind("\n", 0, at) + 1
    end = start
    while True:
        end = text.rfind("\n#", 0, end)
        match = MARKER.match(text, end + 1) if end >= 0 or text.startswith("#") else None
        if match is not None and match.end() < start:
            lines = text.count("\n", match.end() + 1, start)
            return unescaped(match.group(2)), int(match.group(1)) + lines
        if end < 0:
            return "<stdin>", text.count("\n", 0, start) + 1
