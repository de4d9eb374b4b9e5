# SPDX-License-Identifier: BSD-3-Clause
"""A `ws` directive: its parts, the checks on it, and the OpenMP directive that replaces it.

A directive is a name and clauses; C, C++ and Fortran differ in a few names only. A shared loop
becomes a parallel loop that asks the library for the number of threads (`__mh_ws_mark`). By this
call the library learns that the loop may be shared, and the kind and chunk size of `schedule` and
`steal_schedule`. The loop itself always gets a form of schedule in which a late thread can join. A
team whose loops the library does not serve (one rank on the node) follows that form, which is as
near to the user's schedule as possible. Without the library the loop runs in a single thread, as if
it had no directive.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LOOP_CLAUSES = tuple(
    "private firstprivate lastprivate reduction schedule collapse steal_schedule".split()
)
SECTIONS_CLAUSES = LOOP_CLAUSES[:4]
ATOMIC_CLAUSES = tuple(
    "read write update capture seq_cst acq_rel acquire release relaxed hint".split()
)
OMP_LOOP_CLAUSES = (*LOOP_CLAUSES[:4], "collapse", "shared", "default")
NO_ARGUMENT = frozenset(ATOMIC_CLAUSES) - {"hint"}
ONCE = frozenset(["schedule", "steal_schedule", "collapse"])
KINDS = {"static": 1, "dynamic": 2, "guided": 3, "runtime": 4, "auto": 5}
STEAL_KINDS = ("static", "dynamic", "guided")
DIRECTIVES = {
    "c": ("for", "sections", "section", "atomic", "critical"),
    "fortran": (
        *("do", "end do", "sections", "section", "end sections"),
        *("atomic", "end atomic", "critical", "end critical"),
    ),
}
WHY_NOT = {
    "nowait": "a shared loop ends only when other ranks have ended their iterations, too; remove "
    "'nowait'",
    "ordered": "the iterations of a shared loop run in any order; remove 'ordered', or do not "
    "share this loop",
    "cancel": "iterations that another rank has taken cannot be cancelled; do not share this loop",
    "cancellation": "iterations that another rank has taken cannot be cancelled; do not share this "
    "loop",
    "task": "any thread of a team may resume a task, but helpers leave the team within a "
    "millisecond; put the tasks into an array and share a loop over the array, with "
    "schedule(dynamic, 1)",
    "num_threads": "the number of helpers is known only at run time; remove 'num_threads'",
}


class Refused(Exception):
    """The directive cannot be accepted; the text has the reason and the remedy."""


class Clause(NamedTuple):
    name: str
    argument: str | None

    def __str__(self) -> str:
        return self.name if self.argument is None else f"{self.name}({self.argument})"


class Directive(NamedTuple):
    name: str
    clauses: tuple[Clause, ...]
    is_omp: bool = False  # the user's own `omp parallel for` or `omp parallel do`

    def argument(self, name: str) -> str | None:
        return next((c.argument for c in self.clauses if c.name == name), None)


class Schedule(NamedTuple):
    kind: int = 0  # 0: not specified
    chunk: str | None = None


# --- reading a directive ----------------------------------------------------------------------

QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")


def closing(text: str, start: int) -> int:
    """The position of the parenthesis that closes the one at `start`."""
    depth, index = 0, start
    while index < len(text):
        quoted = QUOTED.match(text, index)
        if quoted:
            index = quoted.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
        index += 1
    raise Refused(f"a parenthesis is not closed: {text[start:].strip()}")


def clauses_of(text: str, fold: bool) -> tuple[Clause, ...]:
    """The clauses with their arguments. `fold` makes names lower case, for Fortran."""
    clauses: list[Clause] = []
    index = 0
    while True:
        index = re.compile(r"[\s,]*").match(text, index).end()  # type: ignore[union-attr]
        if index == len(text):
            return tuple(clauses)
        word = re.compile(r"(\w+)\s*(\(?)").match(text, index)
        if word is None:
            raise Refused(f"expected a clause before '{text[index:].strip()}'")
        name = word.group(1).lower() if fold else word.group(1)
        if not word.group(2):
            clauses.append(Clause(name, None))
            index = word.end(1)
            continue
        end = closing(text, word.end() - 1)
        clauses.append(Clause(name, text[word.end() : end].strip()))
        index = end + 1


def suggestion(word: str, known: tuple[str, ...]) -> str:
    import difflib

    near = difflib.get_close_matches(word, known, 1)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"


def refuse(what: str, word: str, known: tuple[str, ...]) -> None:
    if word in WHY_NOT:
        raise Refused(f"'{word}' is refused: {WHY_NOT[word]}")
    kind, _, of = what.partition(" ")
    raise Refused(f"unknown {kind} '{word}'{of and ' '}{of}: {suggestion(word, known)}")


def name_of(text: str, language: str) -> tuple[str, str]:
    """The name of the directive, and the text after the name."""
    known = DIRECTIVES["fortran" if language == "fortran" else "c"]
    match = re.match(r"\s*(end\s*(?=[a-z]))?(\w*)", text, re.IGNORECASE)
    if language != "fortran":
        match = re.match(r"\s*()(\w*)", text)
    assert match is not None
    word = match.group(2).lower() if language == "fortran" else match.group(2)
    name = f"end {word}" if match.group(1) else word
    if name not in known:
        if not name:
            raise Refused(f"a directive is missing after 'ws': {suggestion(name, known)}")
        refuse("directive", name, known)
    return name, text[match.end() :]


def parse(text: str, language: str = "c", clang: bool = False) -> Directive:
    """Returns the directive in the text after `ws`, or raises Refused."""
    name, rest = name_of(text, language)
    if name == "critical" or name == "end critical":
        return Directive(name, critical_name(rest))
    clauses = clauses_of(rest, language == "fortran")
    known = clauses_known(name)
    for clause in clauses:
        if clause.name not in known:
            refuse(f"clause of 'ws {name}'", clause.name, known)
        check_argument(clause, clang)
    for single in ONCE:
        if sum(clause.name == single for clause in clauses) > 1:
            raise Refused(f"'{single}' is given twice; remove one of the two")
    directive = Directive(name, clauses)
    schedule(directive)
    steal_schedule(directive)
    return directive


# OMP_LOOP matches the start of a parallel loop of OpenMP, in the text after `omp`. ASKS_FOR_THREAD
# and OMP_NEEDS_TEAM match calls and directives that need the loop's own team of threads: a loop
# that contains one stays OpenMP.
OMP_LOOP = {
    "c": re.compile(r"\s*parallel\s+for\b"),
    "fortran": re.compile(r"\s*parallel\s*do\b", re.IGNORECASE),
}
ASKS_FOR_THREAD = re.compile(r"\bomp_get_(thread_num|num_threads)\b", re.IGNORECASE)
OMP_NEEDS_TEAM = re.compile(r"\s*(cancel|task|ordered|scan|barrier|master|masked)", re.IGNORECASE)


def parse_omp_loop(text: str, language: str = "c", clang: bool = False) -> Directive | None:
    """The shared loop that replaces the OpenMP loop in the text after `omp`; None if it must stay
    OpenMP.
    """
    match = OMP_LOOP[language].match(text)
    if match is None:
        return None
    try:
        clauses = clauses_of(text[match.end() :], language == "fortran")
        for clause in clauses:
            if clause.name not in OMP_LOOP_CLAUSES:
                return None
            check_argument(clause, clang)
    except Refused:  # the compiler reports the errors of OpenMP directives
        return None
    return Directive("do" if language == "fortran" else "for", clauses, is_omp=True)


def clauses_known(name: str) -> tuple[str, ...]:
    if name in ("for", "do"):
        return LOOP_CLAUSES
    return {"sections": SECTIONS_CLAUSES, "atomic": ATOMIC_CLAUSES}.get(name, ())


def critical_name(text: str) -> tuple[Clause, ...]:
    match = re.fullmatch(r"\s*(?:\(\s*(\w+)\s*\))?\s*", text)
    if match is None:
        raise Refused(f"expected a name in parentheses or nothing after 'critical': {text.strip()}")
    return (Clause("", match.group(1)),) if match.group(1) else ()


def check_argument(clause: Clause, clang: bool) -> None:
    if clause.name in NO_ARGUMENT:
        if clause.argument is not None:
            raise Refused(f"'{clause.name}' takes no argument")
        return
    if not clause.argument:
        raise Refused(f"'{clause.name}' needs an argument in parentheses")
    modifier = re.match(r"(task|inscan)\s*,", clause.argument, re.IGNORECASE)
    if clause.name == "reduction" and modifier:
        raise Refused(
            f"'reduction({modifier.group(1)}, ...)' is refused: helpers join and leave while a "
            "shared loop runs; use a reduction without this modifier"
        )
    conditional = re.match(r"conditional\s*:(?!:)", clause.argument)
    if clang and clause.name == "lastprivate" and conditional:
        raise Refused(
            "'lastprivate(conditional: ...)' is refused with Clang: the code of Clang needs all "
            "threads at the end of the loop; use GCC, or keep the last value under 'ws critical'"
        )


# --- schedule clauses -------------------------------------------------------------------------

MODIFIER = re.compile(r"\s*(\w+(?:\s*,\s*\w+)*)\s*:(?!:)", re.IGNORECASE)


def scheduled(directive: Directive, clause: str, kinds: tuple[str, ...]) -> Schedule:
    argument = directive.argument(clause)
    if argument is None:
        return Schedule()
    modifiers = MODIFIER.match(argument)
    if modifiers:
        argument = argument[modifiers.end() :]
        check_modifiers(clause, modifiers.group(1))
    kind, comma, chunk = argument.partition(",")
    kind, chunk = kind.strip().lower(), chunk.strip()
    if kind not in kinds:
        raise Refused(f"unknown kind '{kind}' of '{clause}': {suggestion(kind, kinds)}")
    if comma and (kind in ("runtime", "auto") or not chunk):
        what = (
            f"'{kind}' takes no chunk size" if chunk else "a chunk size is missing after the comma"
        )
        raise Refused(f"{clause}: {what}")
    return Schedule(KINDS[kind], chunk or None)


def check_modifiers(clause: str, text: str) -> None:
    for modifier in re.split(r"\s*,\s*", text.lower()):
        if modifier == "monotonic":
            raise Refused(
                f"'monotonic' of '{clause}' is refused: ranks take iterations from both ends of a "
                "shared loop; remove 'monotonic'"
            )
        if modifier not in ("nonmonotonic", "simd"):
            known = ("nonmonotonic", "simd")
            raise Refused(f"unknown modifier '{modifier}' of '{clause}': {suggestion('', known)}")


def schedule(directive: Directive) -> Schedule:
    return scheduled(directive, "schedule", tuple(KINDS))


def steal_schedule(directive: Directive) -> Schedule:
    return scheduled(directive, "steal_schedule", STEAL_KINDS)


# --- the clauses of the rewritten loop --------------------------------------------------------


def kept(directive: Directive) -> str:
    """The clauses that OpenMP has as well, in the form in which the user wrote them."""
    own = ("schedule", "steal_schedule")
    return "".join(f" {clause}" for clause in directive.clauses if clause.name not in own)


def team_schedule(directive: Directive) -> str:
    """The schedule clause that a team follows if the library does not serve its loop.

    A static schedule without a chunk size deals iterations out before the loop begins, so no late
    thread could join. `guided` replaces it, because it hands out nearly as few chunks. Loops with
    lastprivate are monotonic, because LLVM's runtime loses last values of nonmonotonic dynamic
    loops.
    """
    own = shares(directive)[0]
    keeps_last = any(clause.name == "lastprivate" for clause in directive.clauses)
    order = "monotonic" if keeps_last else "nonmonotonic"
    if own.kind == KINDS["runtime"]:
        return f"schedule({order}:runtime)"
    by_chunks = own.kind == KINDS["dynamic"] or (own.kind == KINDS["static"] and own.chunk)
    return f"schedule({order}:{'dynamic' if by_chunks else 'guided'},{own.chunk or 1})"


def shares(directive: Directive) -> tuple[Schedule, Schedule]:
    """The schedule and the steal schedule. Sections are handed out one at a time."""
    if directive.name == "sections":
        return Schedule(KINDS["dynamic"], "1"), Schedule(KINDS["dynamic"], "1")
    return schedule(directive), steal_schedule(directive)
