# SPDX-License-Identifier: BSD-3-Clause
"""Puts OpenMP in place of the `ws` directives of a preprocessed C or C++ text.

In a preprocessed text every directive is a single line, whether the source has a `#pragma` or a
`_Pragma` within a macro. A single line replaces the directive, or several lines that end with a
line marker, so that the numbers of the user's lines stay. Declarations are added once, at the start
of the text, between line markers. Sections become a shared loop over a `switch`, in which `case`
labels replace the `section` directives.

With `--share-loops` the parallel loops of the user's own OpenMP are treated like `ws for`.

OpenMP directives of the user are blanked unless the user asked for OpenMP, because the compiler
gets -fopenmp only for the directives that this module writes. Declarations of reductions stay:
clauses of `ws` directives may name them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from manyhands_compilers import directives, exclusion, macros
from manyhands_compilers.directives import Directive, Refused, Schedule
from manyhands_compilers.options import CXX
from manyhands_compilers.places import Faults, fault, marker, place_of

PRAGMA = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+ws\b([^\n]*)", re.MULTILINE)
OMP = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+omp\b([^\n]*)", re.MULTILINE)
OMP_LOOP = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+omp[ \t]+parallel[ \t]+for\b", re.MULTILINE)
MAY_BE_OMP_LOOP = re.compile(r"\bomp\s+parallel\s+for\b")
SIMD = re.compile(r"\s*(simd|declare\s+simd|ordered\s+simd)\b")
# Matches the OpenMP directive `declare reduction` after `omp`. A reduction clause of a `ws`
# directive may name such a declaration, and the declaration itself generates no code.
REDUCTION = re.compile(r"\s*declare\s+reduction\b")
DEFINITIONS = re.compile(r"^#(?:define|undef) [^\n]*", re.MULTILINE)
# RAW, COMMENT and QUOTED match text that may hide a brace or look like a directive. TOKEN matches
# these texts, lines that begin with #, numbers, words and single characters.
RAW = r'(?:u8|u|U|L)?R"([^()\\\s]{0,16})\([\s\S]*?\)\1"'
COMMENT = r"/\*[\s\S]*?\*/|//[^\n]*"
QUOTED = r'"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*'"
TOKEN = re.compile(
    rf"{RAW}|{COMMENT}|{QUOTED}|^[ \t]*#[^\n]*|\.?\d[\w.']*|[A-Za-z_]\w*|[^\s\w]", re.MULTILINE
)
HIDING = re.compile(rf"{RAW}|{COMMENT}|{QUOTED}|\d[\w.']*")
MAY_HIDE = re.compile(r'R"[^()\\\s"]{0,16}\(')
TEAM = "__mh_ws_team()"  # the number of threads of an OpenMP loop without num_threads
PLACEHOLDER = "__mh_ws_section"


class Request(NamedTuple):
    """The form of the text, and the options for rewriting it."""

    language: str
    clang: bool = False
    openmp: bool = False  # the user's own OpenMP stays
    openmp_simd: bool = False
    share_loops: bool = False  # share the user's own parallel loops, too
    definitions: bool = False  # #define lines stay, for the debugger
    preprocess: Callable[[str], str] = str  # runs -E over a few lines


class Found(NamedTuple):
    start: int
    end: int
    directive: Directive


def has_directives(text: str, share_loops: bool = False) -> bool:
    if "pragma" not in text:
        return False
    return PRAGMA.search(text) is not None or (share_loops and OMP_LOOP.search(text) is not None)


def may_have_omp_loops(text: str) -> bool:
    """False if a text that has not been preprocessed certainly has no parallel loop of OpenMP."""
    return MAY_BE_OMP_LOOP.search(text) is not None


def hidden(text: str) -> list[tuple[int, int]]:
    """The spans of raw strings and comments with several lines: a line in them may look like a
    directive.
    """
    if "/*" not in text and MAY_HIDE.search(text) is None:
        return []
    spans = (match.span() for match in HIDING.finditer(text))
    return [(start, end) for start, end in spans if "\n" in text[start:end]]


# --- the text that replaces one directive -----------------------------------------------------


def mark(schedules: tuple[Schedule, Schedule], language: str, alone: str) -> str:
    """The num_threads clause of a shared loop: the library's number, or `alone` without the
    library.
    """

    def as_long(chunk: str | None) -> str:
        if chunk is None or re.fullmatch(r"\d+", chunk):
            return f"{chunk or 0}L"
        return f"static_cast<long>({chunk})" if language == CXX else f"(long)({chunk})"

    values = [value for s in schedules for value in (str(s.kind), as_long(s.chunk))]
    return f"num_threads(__mh_ws_mark ? __mh_ws_mark({', '.join(values)}) : {alone})"


def openmp(directive: Directive, language: str) -> str:
    """The OpenMP directive that replaces the `ws` directive."""
    if directive.name in ("for", "sections"):
        threads = mark(directives.shares(directive), language, TEAM if directive.is_omp else "1")
        clauses = f"{directives.team_schedule(directive)}{directives.kept(directive)}"
        return f"#pragma omp parallel for {threads} {clauses}"
    return f"#pragma omp {directive.name}" + "".join(f" {clause}" for clause in directive.clauses)


# --- the shape of the code that follows a directive -------------------------------------------


def tokens(text: str, start: int) -> Iterator[tuple[str, int]]:
    """The tokens with their positions, without quoted text, numbers and lines that begin with #."""
    for match in TOKEN.finditer(text, start):
        token = match.group()
        if token[0] not in "\"'#" and not token[0].isdigit() and len(token) < 200:
            if token.startswith(("/*", "//")) or '"' in token:
                continue
            yield token, match.start()


def end_of_braces(text: str, start: int) -> int | None:
    """The position of the brace that closes the brace at `start`."""
    depth = 0
    for token, at in tokens(text, start):
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth == 0:
            return at
    return None


def end_of_loop(text: str, start: int) -> int | None:
    """The approximate position of the end of the loop after a directive; None if no loop
    follows.
    """
    depth, in_head, seen = 0, False, False
    for token, at in tokens(text, start):
        if token in "([{":
            if token == "{" and depth == 0:
                return end_of_braces(text, at) if seen else None
            depth += 1
        elif token in ")]}":
            depth -= 1
            in_head = in_head and depth > 0
        elif token == "for" and depth == 0:
            seen = in_head = True
        elif depth == 0 and not seen:
            return None
        elif token == ";" and depth == 0 and not in_head:
            return at
    return None


HEADED = ("if", "for", "while", "switch")


def end_of_statement(text: str, start: int) -> int | None:
    """The position behind the statement that begins at `start`; None if the text ends before."""
    first = next(tokens(text, start), None)
    if first is None:
        return None
    word, at = first
    if word == "{":
        end = end_of_braces(text, at)
        return None if end is None else end + 1
    if word in HEADED:
        return end_behind_head(text, at + len(word), word)
    if word in ("else", "do", "try"):
        end = end_of_statement(text, at + len(word))
        following = next(tokens(text, end), ("", 0)) if end is not None else ("", 0)
        if word == "do" and following[0] == "while":
            return end_of_expression(text, following[1])
        catches = word == "try" and following[0] == "catch"
        return end_behind_head(text, following[1] + len("catch"), "try") if catches else end
    return end_of_expression(text, at)


def end_behind_head(text: str, start: int, word: str) -> int | None:
    """The end of a statement with a head in parentheses, including its `else` or `catch`."""
    head = next(tokens(text, start), None)
    if head is not None and head[0] == "constexpr":
        head = next(tokens(text, head[1] + len(head[0])), None)
    end = end_of_head(text, head[1]) if head is not None and head[0] == "(" else None
    end = end_of_statement(text, end) if end is not None else None
    if end is None:
        return None
    following = next(tokens(text, end), ("", 0))
    if word == "if" and following[0] == "else":
        return end_of_statement(text, following[1] + len("else"))
    if word == "try" and following[0] == "catch":
        return end_behind_head(text, following[1] + len("catch"), word)
    return end


DEPTH = {**dict.fromkeys("([{", 1), **dict.fromkeys(")]}", -1)}


def end_outside(text: str, start: int, last: str) -> int | None:
    """The position behind the first token `last` outside of brackets."""
    depth = 0
    for token, at in tokens(text, start):
        depth += DEPTH.get(token, 0)
        if token == last and depth == 0:
            return at + 1
    return None


def end_of_expression(text: str, start: int) -> int | None:
    return end_outside(text, start, ";")


def end_of_head(text: str, start: int) -> int | None:
    return end_outside(text, start, ")")


# --- rewriting the whole text of a source -----------------------------------------------------


class Rewriting:
    """The replacements in a text. Faults are gathered, so that all are reported at once."""

    def __init__(self, text: str, request: Request) -> None:
        self.text = text
        self.request = request
        self.faults: list[str] = []
        self.edits: list[tuple[int, int, str]] = []  # start, end, replacement
        self.sections = False
        self.excludes = False
        self.hidden = hidden(text)

    def visible(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        def is_hidden(at: int) -> bool:
            return any(start < at < end for start, end in self.hidden)

        return [m for m in pattern.finditer(self.text) if not is_hidden(m.start())]

    def complain(self, at: int, message: str) -> None:
        self.faults.append(fault(place_of(self.text, at), message))

    def find(self) -> list[Found]:
        matches = self.visible(PRAGMA)
        raw = [(m.start(), m.group(1).strip()) for m in matches]
        texts = macros.expanded(self.text, raw, self.request.preprocess)
        found: list[Found] = []
        for match in matches:
            try:
                directive = directives.parse(texts[match.start()], "c", self.request.clang)
            except Refused as refused:
                self.complain(match.start(), str(refused))
                continue
            found.append(Found(match.start(), match.end(), directive))
        return sorted([*found, *self.omp_loops(found)]) if self.request.share_loops else found

    def omp_loops(self, marked: list[Found]) -> list[Found]:
        """The parallel loops of the user's OpenMP that can be shared: the outermost ones."""
        all_omp = self.visible(OMP)
        shared = [f for f in marked if f.directive.name in ("for", "sections")]
        team = [m.start() for m in all_omp if directives.OMP_NEEDS_TEAM.match(m.group(1))]
        team += [f.start for f in shared]
        inside = [(f.start, self.end_of_shared(f)) for f in shared]
        loops: list[Found] = []
        for match in all_omp:
            start, end = match.start(), end_of_loop(self.text, match.end())
            directive = directives.parse_omp_loop(match.group(1), "c", self.request.clang)
            if directive is None or end is None or any(start < at < end for at in team):
                continue
            if directives.ASKS_FOR_THREAD.search(self.text, start, end):
                continue
            if not any(first < start < (last or 0) for first, last in inside):
                loops.append(Found(start, match.end(), directive))
                inside.append((start, end))
        return loops

    def end_of_shared(self, found: Found) -> int | None:
        if found.directive.name == "for":
            return end_of_loop(self.text, found.end)
        first = next(tokens(self.text, found.end), ("", 0))
        return end_of_braces(self.text, first[1])

    def replace(self, found: Found, line: str) -> None:
        self.edits.append((found.start, found.end, line))

    def insert(self, at: int, words: str) -> None:
        self.edits.append((at, at, words))

    def rewrite_sections(self, head: Found, all_found: list[Found]) -> None:
        """`{ ... #pragma ws section { ... } }` becomes a loop over the cases of a switch."""
        first = next(tokens(self.text, head.end), None)
        end = end_of_braces(self.text, first[1]) if first and first[0] == "{" else None
        if first is None or end is None:
            self.complain(head.start, "'ws sections' must be followed by a block in braces")
            return
        begin = first[1] + 1
        inner = [f for f in all_found if f.directive.name == "section" and begin <= f.start < end]
        following = next(tokens(self.text, begin), ("", end))[1]
        first_is_named = bool(inner) and inner[0].start < following
        number = 0
        if not first_is_named:
            self.insert(begin, " case 0: {")
            number = 1
        for place, section in enumerate(inner):
            leave = "" if first_is_named and place == 0 else "} break; "
            self.replace(section, f"{leave}case {number}: {{")
            number += 1
        self.insert(end, "} break; ")
        loop = f"for ({PLACEHOLDER} = 0; {PLACEHOLDER} < {number}; ++{PLACEHOLDER}) "
        self.insert(first[1], f"{loop}switch ({PLACEHOLDER}) ")
        self.sections = True

    def exclude(self, found: Found) -> None:
        """Makes the statement behind `ws critical` or `ws atomic` lock out all other processes of
        the node.
        """
        directive = found.directive
        end = end_of_statement(self.text, found.end)
        if end is None:
            self.complain(found.start, f"'ws {directive.name}' must be followed by a statement")
            return
        if directive.name == "critical":
            before, behind = exclusion.around(directive.argument("") or "")
        else:
            reads = any(clause.name in ("read", "capture") for clause in directive.clauses)
            wide = exclusion.is_wide(self.text[found.end : end], reads)
            before, behind = exclusion.around(exclusion.WIDE_ATOMICS, wide)
        place = marker(place_of(self.text, found.start))
        self.excludes = True
        self.replace(found, f"{before}\n{place}\n{openmp(directive, self.request.language)}")
        self.insert(end, behind)

    def check_nesting(self, found: list[Found]) -> None:
        shared = [f for f in found if f.directive.name in ("for", "sections")]
        cancels = [m for m in self.visible(OMP) if "cancel" in m.group(1)]
        if len(shared) < 2 and not (cancels and self.request.openmp):
            return
        for outer in shared:
            end = self.end_of_shared(outer)
            if end is not None:
                self.check_inside(outer, end, shared, cancels)

    def check_inside(
        self, outer: Found, end: int, shared: list[Found], cancels: list[re.Match[str]]
    ) -> None:
        line = place_of(self.text, outer.start)[1]
        for inner in shared:
            if outer.start < inner.start < end:
                self.complain(
                    inner.start,
                    f"'ws {inner.directive.name}' within the 'ws {outer.directive.name}' of line "
                    f"{line} is refused: only the outer directive could be shared; remove one of "
                    "the two",
                )
        for match in cancels:
            if self.request.openmp and outer.start < match.start() < end:
                self.complain(match.start(), f"'cancel' is refused: {directives.WHY_NOT['cancel']}")

    def check_lone_sections(self, found: list[Found]) -> None:
        edited = {start for start, _, _ in self.edits}
        for f in found:
            if f.directive.name == "section" and f.start not in edited:
                self.complain(
                    f.start,
                    "'ws section' outside of 'ws sections'; put it into the block of 'ws sections'",
                )

    def blank_openmp(self) -> None:
        if self.request.openmp:
            return
        for match in self.visible(OMP):
            kept = self.request.openmp_simd and SIMD.match(match.group(1))
            if not kept and not REDUCTION.match(match.group(1)):
                self.edits.append((match.start(), match.end(), ""))

    def run(self) -> str:
        found = self.find()
        for f in found:
            if f.directive.name == "sections":
                self.rewrite_sections(f, found)
            if f.directive.name in ("atomic", "critical"):
                self.exclude(f)
            elif f.directive.name != "section":
                self.replace(f, openmp(f.directive, self.request.language))
        self.check_nesting(found)
        if not self.faults:
            self.check_lone_sections(found)
        if self.faults:
            raise Faults(self.faults)
        self.blank_openmp()
        return self.with_declarations(self.edited())

    def edited(self) -> str:
        parts: list[str] = []
        at = 0
        for start, end, words in sorted(self.edits):
            parts += [self.text[at:start], words]
            at = end
        text = "".join([*parts, self.text[at:]])
        return text if self.request.definitions else DEFINITIONS.sub("", text)

    def with_declarations(self, text: str) -> str:
        """The text with declarations behind its first two line markers, from which compilers take
        the name and the folder of the source.
        """
        head = re.match(r'(# \d+ "[^\n]*\n)(# \d+ "[^\n]*//"\n)?', text)
        start = head.end() if head else 0
        place = place_of(text, start)
        lines = [
            '# 1 "<manyhands>" 3',
            self.declarations(),
            f"{marker(place)}\n",
        ]
        return text[:start] + "\n".join(lines) + text[start:]

    def declarations(self) -> str:
        extern = 'extern "C"' if self.request.language == CXX else "extern"
        weak = "__attribute__((__weak__))"
        line = f"{extern} int __mh_ws_mark(int, long, int, long) {weak};"
        if self.request.share_loops:
            line += f' {extern} int {TEAM[:-2]}(void) __asm__("omp_get_max_threads");'
        if self.excludes:
            number = "(unsigned long long)"
            line += f" {extern} void __mh_ws_lock{number} {weak};"
            line += f" {extern} void __mh_ws_unlock{number} {weak};"
        if self.sections:
            line += f" static int {PLACEHOLDER};"
        return line


def rewrite(text: str, request: Request) -> str:
    """The text with OpenMP in place of its directives; raises Faults."""
    return Rewriting(text, request).run()
