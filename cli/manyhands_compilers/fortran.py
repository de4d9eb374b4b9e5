# SPDX-License-Identifier: BSD-3-Clause
"""Puts OpenMP in place of the `ws` directives of a Fortran text, in free and in fixed form.

A directive may span several lines and becomes as many lines as OpenMP needs, within 72 columns in
fixed form. A line marker after these lines restores the line number. Fortran has no weak symbols,
so a function `mh_ws_mark` returns the number of threads. Every procedure that shares a loop
declares the function, and the link adds the function (linking.py). Sections become a shared loop
over a `select case`.

Unless the user asked for OpenMP, `!$omp` directives and `!$` lines are made comments, except
declarations of reductions, which clauses of `ws` directives may name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from manyhands_compilers import directives, exclusion
from manyhands_compilers.directives import Directive, Refused, Schedule
from manyhands_compilers.places import MARKER, Faults, fault, marker, unescaped
from manyhands_compilers.units import Units

DIRECTIVE = re.compile(r"^[ \t]*!\$ws\b|^[cC*]\$ws\b", re.MULTILINE | re.IGNORECASE)
OMP_LOOP = re.compile(r"^(?:[ \t]*!|[cC*])\$omp[ \t]*parallel[ \t]*do\b", re.M | re.I)
FREE = re.compile(r"[ \t]*!\$ws\b", re.IGNORECASE)
# Matches the sentinel `$ws` of a directive in fixed form. The group is the mark of a continuation
# line: in column 6, as for any statement, or in column 5, right after the sentinel. A letter in
# column 6 begins a directive, as in `!$ws do`.
FIXED = re.compile(r"[cC*!]\$ws\b(\s?[^\s\w]|\s?[1-9])?", re.IGNORECASE)
SENTINEL = {
    False: re.compile(r"([ \t]*!)\$(?!acc)", re.I),
    True: re.compile(r"([cC*!])\$(?!acc)", re.I),
}
SIMD = re.compile(r"omp\s+(end\s+)?(simd|declare\s+simd|ordered\s+simd)\b", re.I)
REDUCTION = re.compile(r"omp\s+declare\s+reduction\b", re.I)
# Matches the sentinel of an OpenMP directive. The key says whether the source is in fixed form; in
# fixed form, the group is the mark of a continuation line, as in FIXED.
OMP = {
    False: re.compile(r"[ \t]*!\$omp\b", re.I),
    True: re.compile(r"[cC*!]\$omp([^\s0])?", re.I),
}
STRING = re.compile(r"""'(?:[^'\n]|'')*'|"(?:[^"\n]|"")*\"""")
PIECE = re.compile(r"""\s*(?:'(?:[^']|'')*'|"(?:[^"]|"")*"|[\w.%$]+|\*\*|//|=>|::|.)""")
VARIABLE = "mh_ws_section"
MARKS = {"mark": "mh_ws_mark", "team": "mh_ws_mark_team"}  # team: the user's own loops
INTERFACE = (
    "interface",
    "function {0}(k, c, tk, tc)",
    "integer(4) :: {0}, k, tk",
    "integer(8) :: c, tc",
    "end function {0}",
    "end interface",
)
LOCKS = (
    "interface",
    "subroutine mh_ws_lock(n)",
    "integer(8) :: n",
    "end subroutine mh_ws_lock",
    "subroutine mh_ws_unlock(n)",
    "integer(8) :: n",
    "end subroutine mh_ws_unlock",
    "end interface",
)
CALLS = re.compile(r"\bmh_ws_(mark|mark_team|lock)\(")
MARGIN = "      "


class Request(NamedTuple):
    """The form of the text, and the options for rewriting it."""

    fixed: bool
    openmp: bool = False  # the user's own OpenMP stays
    openmp_simd: bool = False
    share_loops: bool = False  # share the user's own parallel loops, too
    columns: int = 72  # of fixed form; 0: no limit


def has_directives(text: str, share_loops: bool = False) -> bool:
    if "$" not in text:
        return False
    return DIRECTIVE.search(text) is not None or (share_loops and may_have_omp_loops(text))


def may_have_omp_loops(text: str) -> bool:
    return OMP_LOOP.search(text) is not None


def calls_us(text: str) -> bool:
    """True if a rewritten text calls functions that linking.STUB defines."""
    return CALLS.search(text) is not None


def columns(flags: list[str]) -> int:
    """The length of a line in fixed form under these options; 0: no limit."""
    length = 72
    for flag in flags:
        match = re.fullmatch(r"-ffixed-line-length-(\d+|none)|(-fd-lines.*)", flag)
        if match and match.group(1):
            length = 0 if match.group(1) in ("none", "0") else int(match.group(1))
    return length


# --- the text that replaces one directive -----------------------------------------------------


def mark(schedules: tuple[Schedule, Schedule], function: str) -> str:
    values: list[str] = []
    for schedule in schedules:
        chunk = schedule.chunk or "0"
        long = f"{chunk}_8" if chunk.isdigit() else f"int({chunk}, 8)"
        values += [f"{schedule.kind}_4", long]
    return f"num_threads({function}({', '.join(values)}))"


def openmp(directive: Directive) -> str:
    """The OpenMP directive that replaces the `ws` directive, as one line of any length, without
    `!$omp`.
    """
    if directive.name in ("do", "sections"):
        function = MARKS["team" if directive.is_omp else "mark"]
        threads = mark(directives.shares(directive), function)
        schedule = directives.team_schedule(directive)
        return f"parallel do {threads} {schedule}{directives.kept(directive)}"
    if directive.name in ("end do", "end sections"):
        return "end parallel do"
    return directive.name + "".join(f" {clause}" for clause in directive.clauses)


def rows_of(words: str, width: int) -> list[str]:
    """Splits the words into rows of at most `width` characters, at places where a line may be
    continued.
    """
    rows, row = [], ""
    for piece in PIECE.findall(words):
        if row and len(row) + len(piece) > width:
            rows.append(row)
            row = ""
        row += piece if row else piece.lstrip()
    return [*rows, row]


def continued(words: str, fixed: bool) -> list[str]:
    """Splits an OpenMP directive into lines within the columns of the source form."""
    rows = rows_of(words, 65 if fixed else 110)
    if fixed:
        return [f"!$omp{'&' if at else ' '}{row}" for at, row in enumerate(rows)]
    last = len(rows) - 1
    return [f"!$omp {row}{' &' if at < last else ''}" for at, row in enumerate(rows)]


def statement(words: str, fixed: bool) -> list[str]:
    """Splits a statement into lines within the columns of the source form."""
    rows = rows_of(words, 62)
    if fixed:
        return [f"{'     &' if at else MARGIN}{row}" for at, row in enumerate(rows)]
    return [f"{MARGIN}{row}{' &' if at < len(rows) - 1 else ''}" for at, row in enumerate(rows)]


def without_comment(text: str) -> str:
    """The text up to a `!` that is not within a string."""
    index = 0
    while index < len(text):
        string = STRING.match(text, index)
        if string:
            index = string.end()
        elif text[index] == "!":
            return text[:index]
        else:
            index += 1
    return text


# --- rewriting the whole text of a source -----------------------------------------------------


class Sections:
    """A `ws sections` construct whose end has not been read yet."""

    def __init__(self, directive: Directive, at: int, statements: int) -> None:
        self.directive = directive
        self.at = at  # the line of the directive
        self.statements = statements  # the number of statements before the directive
        self.first: list[str] = []  # the case of a first section without a directive
        self.cases = 0

    def next_case(self) -> str:
        self.cases += 1
        return f"{MARGIN}case ({self.cases - 1})"


class Atomic:
    """An atomic construct whose end has not been read yet."""

    def __init__(self, directive: Directive, at: int) -> None:
        names = [clause.name for clause in directive.clauses]
        self.at = at  # the line of the directive
        self.has_end = "capture" in names  # must have its end directive
        self.reads = self.has_end or "read" in names
        self.statements: list[str] = []
        self.last = at  # the last line of its statements


class Rewriting:
    """Reads a text line by line, and keeps the output lines for each input line."""

    def __init__(self, text: str, request: Request) -> None:
        self.request = request
        self.lines = text.split("\n")
        self.out: list[list[str]] = [[line] for line in self.lines]
        self.places = self.places_of_lines()
        self.units = Units()
        self.faults: list[str] = []
        self.inserts: dict[int, set[str]] = {}  # the declarations to add in front of a line
        self.sections: list[Sections] = []
        self.criticals: list[str] = []  # names of the open critical sections
        self.atomic: Atomic | None = None
        self.statements = 0
        self.shared: tuple[int, int] | None = None  # depth and line of the current shared loop
        self.omp_lines: range | None = None  # lines of that loop's own OpenMP directive, if any
        self.keeping = False  # the next line continues an OpenMP directive that stays
        self.pending = ""  # a statement that the next line may continue
        self.pending_from = 0

    def places_of_lines(self) -> list[tuple[str, int]]:
        places = []
        file, number = "<stdin>", 1
        for line in self.lines:
            match = MARKER.match(line) if line.startswith("#") else None
            if match:
                file, number = unescaped(match.group(2)), int(match.group(1)) - 1
            places.append((file, number))
            number += 1
        return places

    def complain(self, at: int, message: str) -> None:
        self.faults.append(fault(self.places[at], message))

    def run(self) -> str:
        at = 0
        while at < len(self.lines):
            line = self.lines[at]
            if self.begins(line):
                at = self.take_directive(at)
                continue
            if self.request.share_loops and OMP[self.request.fixed].match(line):
                at = self.take_omp(at)
                continue
            self.take_line(at, line)
            at += 1
        self.end_statement(at - 1)
        self.end_atomic()
        for sections in self.sections:
            self.complain(
                sections.at, "'ws sections' without 'ws end sections'; add 'ws end sections'"
            )
        if self.faults:
            raise Faults(self.faults)
        return self.joined()

    # --- lines of the program

    def is_comment(self, line: str) -> bool:
        if self.request.fixed and line[:1] in ("c", "C", "*", "!", "d", "D"):
            return True
        return not line.strip() or line.lstrip()[0] == "!" or line[0] == "#"

    def take_line(self, at: int, line: str) -> None:
        quiet = self.deactivated(line)
        if quiet is not None:
            self.out[at] = [quiet]
            return
        if self.is_comment(line):
            return
        if self.request.fixed:
            self.take_fixed(at, line)
        else:
            self.take_free(at, line)

    def deactivated(self, line: str) -> str | None:
        """The user's OpenMP line as a comment; None for other lines, and for lines that stay
        active.
        """
        match = SENTINEL[self.request.fixed].match(line)
        if match is None or self.request.openmp:
            return None
        words = line[match.end() :]
        keep = REDUCTION.match(words) or (self.request.openmp_simd and SIMD.match(words))
        if self.request.fixed:
            goes_on = line[5:6] not in ("", " ", "0") and self.keeping
            self.keeping = bool(keep) or goes_on
            keep = self.keeping
        else:
            keep = keep or self.keeping
            self.keeping = bool(keep) and without_comment(words).rstrip().endswith("&")
        return None if keep else f"{match.group(1)}-{words}"

    def take_free(self, at: int, line: str) -> None:
        code = without_comment(line).strip()
        goes_on = code.endswith("&")
        code = code.removesuffix("&").removeprefix("&") if self.pending else code.removesuffix("&")
        if not self.pending:
            self.pending_from = at
        self.pending += code + " "
        if not goes_on:
            self.end_statement(at)

    def take_fixed(self, at: int, line: str) -> None:
        limit = self.request.columns or None
        expanded = re.sub(r"^( {0,5}\d* *)\t", lambda m: m.group(1).ljust(6), line)[:limit]
        if self.pending and expanded[:5].strip() == "" and expanded[5:6] not in ("", " ", "0"):
            self.pending += expanded[6:]
            return
        self.end_statement(at - 1)
        self.pending, self.pending_from = expanded[6:], at

    def end_statement(self, last: int) -> None:
        if self.pending.strip():
            self.add_to_atomic(without_comment(self.pending).strip(), last)
        text = STRING.sub("''", self.pending)
        if directives.ASKS_FOR_THREAD.search(text):
            self.leave_omp_loop()
        self.pending = ""
        for statement in without_comment(text).lower().split(";"):
            plain = re.sub(r"^\s*\d+\s+", "", statement).strip()
            if plain:
                self.statements += 1
                self.units.statement(plain, self.pending_from, last)
        if self.units.labelled:
            self.leave_omp_loop()  # the body of a loop that ends at a label is not searched
        if self.shared and (self.units.labelled or self.units.depth <= self.shared[0]):
            ended = self.units.labelled or re.match(r"\s*(\d+\s+)?end\s*do\b", text, re.I)
            self.shared = None if ended else self.shared

    # --- directives

    def begins(self, line: str) -> bool:
        if not self.request.fixed:
            return FREE.match(line) is not None
        match = FIXED.match(line)
        return match is not None and match.group(1) is None

    def take_directive(self, at: int) -> int:
        """Replaces the `ws` directive that begins on this line. Returns the line after the
        directive.
        """
        if self.request.fixed:
            self.end_statement(at - 1)
        text, after = self.fixed_text(at) if self.request.fixed else self.free_text(at)
        for line in range(at, after):
            self.out[line] = []
        try:
            directive = directives.parse(text, "fortran")
            if directive.name != "end atomic":
                self.end_atomic()
            self.out[at] = self.replaced(directive, at)
        except Refused as refused:
            self.complain(at, str(refused))
        if len(self.out[at]) != after - at and after < len(self.lines):
            self.out[at].append(self.marker_before(after))
        return after

    def take_omp(self, at: int) -> int:
        """Makes the user's OpenMP loop a shared loop, or leaves the directive. Returns the line
        after it.
        """
        if self.request.fixed:
            self.end_statement(at - 1)
        form = OMP[self.request.fixed]
        text, after = (self.fixed_text if self.request.fixed else self.free_text)(at, form)
        if directives.OMP_NEEDS_TEAM.match(text):
            self.leave_omp_loop()
        directive = directives.parse_omp_loop(text, "fortran")
        if directive is None or self.shared or self.sections:
            return after
        self.declare("team")
        self.shared, self.omp_lines = (self.units.depth, at), range(at, after)
        self.units.labelled = False
        for line in self.omp_lines:
            self.out[line] = []
        self.out[at] = continued(openmp(directive), self.request.fixed)
        if len(self.out[at]) != after - at and after < len(self.lines):
            self.out[at].append(self.marker_before(after))
        return after

    def marker_before(self, at: int) -> str:
        file, line = self.places[at - 1]
        return marker((file, line + 1))

    def leave_omp_loop(self) -> None:
        """Makes the current loop OpenMP's again, because its code needs the loop's own team."""
        if self.shared and self.omp_lines:
            for line in self.omp_lines:
                self.out[line] = [self.lines[line]]
            self.shared = self.omp_lines = None

    def free_text(self, at: int, form: re.Pattern[str] = FREE) -> tuple[str, int]:
        text, goes_on = "", True
        while goes_on and at < len(self.lines):
            match = form.match(self.lines[at])
            if match is None:
                break
            part = without_comment(self.lines[at][match.end() :]).strip()
            goes_on = part.endswith("&")
            text += part.removesuffix("&").removeprefix("&") + (" " if goes_on else "")
            at += 1
        return text, at

    def fixed_text(self, at: int, form: re.Pattern[str] = FIXED) -> tuple[str, int]:
        limit = self.request.columns or None
        text, begin = "", at
        while at < len(self.lines):
            match = form.match(self.lines[at])
            if match is None or (at > begin and match.group(1) is None):
                break
            text += without_comment(self.lines[at][match.end() : limit]).strip("\r")
            at += 1
        return text, at

    def replaced(self, directive: Directive, at: int) -> list[str]:
        """The lines that replace the `ws` directive."""
        if directive.name in ("do", "sections"):
            self.leave_omp_loop()
            self.check_nesting(directive, at)
            self.declare("mark")
        if directive.name == "do":
            self.omp_lines = None
            self.shared = (self.units.depth, at)
            self.units.labelled = False
        if directive.name == "sections":
            self.declare("section")
            self.sections.append(Sections(directive, at, self.statements))
            return []  # the number of sections is known at their end
        if directive.name in ("section", "end sections"):
            return self.replaced_section(directive)
        return self.excluding(directive, at)

    # --- critical and atomic

    def excluding(self, directive: Directive, at: int) -> list[str]:
        lines = continued(openmp(directive), self.request.fixed)
        if directive.name == "critical":
            self.declare("lock")
            self.criticals.append((directive.argument("") or "").lower())
            return self.statement(exclusion.lock_calls(self.criticals[-1])[0]) + lines
        if directive.name == "end critical" and self.criticals:
            return lines + self.statement(exclusion.lock_calls(self.criticals.pop())[1])
        if directive.name == "atomic":
            self.declare("lock")
            self.atomic = Atomic(directive, at)
        if directive.name == "end atomic" and self.atomic:
            return lines + self.surround_atomic()
        return lines

    def statement(self, words: str) -> list[str]:
        return statement(words, self.request.fixed)

    def add_to_atomic(self, text: str, last: int) -> None:
        if self.atomic and self.atomic.statements and not self.atomic.has_end:
            self.end_atomic()
        if self.atomic:
            self.atomic.statements.append(text)
            self.atomic.last = last

    def end_atomic(self) -> None:
        """Ends the open atomic construct, if any, when the source has no end directive for it."""
        if self.atomic is None:
            return
        file, line = self.places[self.atomic.last]
        self.out[self.atomic.last] += [*self.surround_atomic(), marker((file, line + 1))]

    def surround_atomic(self) -> list[str]:
        """Puts the lock in front of the atomic construct. Returns the lines that unlock
        behind it.
        """
        assert self.atomic is not None
        at = self.atomic.at
        wide = exclusion.wide_in_fortran(self.atomic.statements, self.atomic.reads)
        self.atomic = None
        if not wide:
            return []
        before, behind = exclusion.lock_calls(exclusion.WIDE_ATOMICS, wide)
        self.out[at] = [*self.statement(before), marker(self.places[at]), *self.out[at]]
        return self.statement(behind)

    def replaced_section(self, directive: Directive) -> list[str]:
        if not self.sections:
            raise Refused(
                f"'ws {directive.name}' without 'ws sections' before it; add 'ws sections'"
            )
        sections = self.sections[-1]
        if sections.cases == 0 and self.statements > sections.statements:
            sections.first = [sections.next_case()]
        if directive.name == "section":
            return [sections.next_case()]
        self.sections.pop()
        begin = continued(openmp(sections.directive), self.request.fixed)
        begin.append(f"{MARGIN}do {VARIABLE} = 0, {sections.cases - 1}")
        begin.append(f"{MARGIN}select case ({VARIABLE})")
        self.out[sections.at] = begin + sections.first + self.out[sections.at]
        return [f"{MARGIN}end select", f"{MARGIN}end do", "!$omp end parallel do"]

    # --- declarations, checks of nesting, the rewritten text

    def declare(self, what: str) -> None:
        if not self.units.open:
            return
        at = self.units.open[-1].insert_at
        self.inserts.setdefault(at, set()).add(what)

    def check_nesting(self, directive: Directive, at: int) -> None:
        outer = self.shared or ((0, self.sections[-1].at) if self.sections else None)
        if outer is None:
            return
        line = self.places[outer[1]][1]
        raise Refused(
            f"'ws {directive.name}' within the shared loop or sections of line {line} is refused: "
            "only the outer directive could be shared; remove one of the two"
        )

    def joined(self) -> str:
        result: list[str] = []
        for at, lines in enumerate(self.out):
            if at in self.inserts:
                result += self.declarations(self.inserts[at])
                result.append(marker(self.places[at]))
            result += lines
        return "\n".join(result)

    def declarations(self, names: set[str]) -> list[str]:
        functions = [function for what, function in MARKS.items() if what in names]
        rows = [row.format(function) for function in functions for row in INTERFACE]
        rows += LOCKS if "lock" in names else ()
        if "section" in names:
            rows.append(f"integer(4) :: {VARIABLE}")
        return [MARGIN + row for row in rows]


def rewrite(text: str, request: Request) -> str:
    """The text with OpenMP in place of its directives; raises Faults."""
    return Rewriting(text, request).run()
