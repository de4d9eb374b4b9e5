# SPDX-License-Identifier: BSD-3-Clause
"""The program unit that a line of Fortran belongs to, and the place for declarations in that unit.

Statements are read in order, without comments and strings. Few statements count: the start and end
of units and interface blocks; `use`, `import` and `implicit`, below which declarations go; and `do`
loops, whose depth tells whether a loop is inside a shared loop. All other statements are ignored.
"""

from __future__ import annotations

import re

TYPE = r"integer|real|double\s*precision|complex|logical|character|type|class"
PREFIX = (
    rf"(?:(?:recursive|pure|elemental|impure|module|non_recursive|{TYPE})\s*"
    r"(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\*\s*(?:\d+|\(\*\)))?\s*)*"
)
BEGIN = re.compile(
    rf"{PREFIX}(?:subroutine\s+\w+|function\s+\w+\s*\()|program\s+\w+$|module\s+(?!procedure\b)\w+$|"
    r"submodule\s*\(|block\s*data\b"
)
BEGIN_PROCEDURE = re.compile(r"module\s+procedure\s+\w+$")
INTERFACE = re.compile(r"(?:abstract\s+)?interface\b(?!\s*=)")
END = re.compile(
    r"end\s*(?:(?:subroutine|function|program|module|submodule|procedure|block\s*data|interface)\b.*)?$"
)
IMPLICIT = re.compile(r"implicit\b(?!\s*[=(%])")
# Statements that stand at the beginning of a Fortran program unit. Further down, a line that
# matches belongs to a block construct.
HEAD = re.compile(r"(?:use|import)\b(?!\s*[=(%])|include\s*['\"]")
DO = re.compile(r"(?:\w+\s*:\s*)?do\b(?!\s*=)(?!\s*\d)")
LABELLED_DO = re.compile(r"(?:\w+\s*:\s*)?do\s*\d+\b")
END_DO = re.compile(r"end\s*do\b")


class Unit:
    """A program unit or procedure, or an interface block."""

    def __init__(self, insert_at: int, interface: bool = False) -> None:
        self.insert_at = insert_at  # declarations go in front of this line
        self.interface = interface
        self.in_head = True


class Units:
    """The units that are open, from the outermost to the innermost."""

    def __init__(self) -> None:
        self.open: list[Unit] = []
        self.depth = 0  # of do loops
        self.labelled = False  # True: a label ends some loop, so the depth is not known

    def statement(self, text: str, first: int, last: int) -> None:
        """Reads a statement that occupies the lines `first` to `last`."""
        inside_interface = bool(self.open) and self.open[-1].interface
        if INTERFACE.match(text):
            self.open.append(Unit(last + 1, interface=True))
        elif BEGIN.match(text) or (BEGIN_PROCEDURE.match(text) and not inside_interface):
            self.open.append(Unit(last + 1))
        elif END.match(text):
            del self.open[-1:]
        elif not inside_interface:
            self.within(text, first, last)

    def within(self, text: str, first: int, last: int) -> None:
        if not self.open:
            self.open.append(Unit(first))  # a main program without a program statement
        unit = self.open[-1]
        if IMPLICIT.match(text) or (HEAD.match(text) and unit.in_head):
            unit.insert_at = last + 1
        else:
            unit.in_head = False
        self.count_loops(text)

    def count_loops(self, text: str) -> None:
        if LABELLED_DO.match(text):
            self.labelled = True
        elif DO.match(text):
            self.depth += 1
        elif END_DO.match(text):
            self.depth -= 1
