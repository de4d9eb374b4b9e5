# SPDX-License-Identifier: BSD-3-Clause
"""The checks of prose: comments, docstrings and commit subjects.

A comment's first sentence names its subject, so some words may not open it. Sentences are short.
Words that the project has given up (GIVEN_UP) are faults. The file ALLOWANCE has the number of
faults that a source may still have; the numbers only shrink, and `scripts/lint --fix` lowers them.
`scripts/lint` is the only user of this module. Standard library only.
"""

from __future__ import annotations

import ast
import io
import itertools
import json
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ALLOWANCE = "scripts/lint_allowance.json"
OPENERS = {"Who", "What", "Where", "One", "So", "That", "As", "Of"}
MOST_WORDS = 35  # of a sentence

# Words that may not be used any more, and their replacements.
GIVEN_UP = {
    r"[Ss]end[ _]?[Dd]escriptors?": "rendezvous send, slot",
    r"message descriptors?": "RTS header",
    r"[Ss]end[ _]?[Qq]ueues?": "send table",
    r"messages? (?:is|are|was|were) described": "sent by rendezvous",
    r"Receipts?|PendingReceives?|ShortReceives?": "receive request",
    r"Departures?": "send request",
    r"ReceiveTargets?": "ReceiveBuffer",
    r"looked_in_vain|polled_in_vain": "note_failed_poll",
    r"until_told": "until_shared",
    r"ungated|gated": "with, without arrival barrier",
    r"ledgers?|belts?": "the field's word (docs/design.md)",
    r"many hands|hands of (?:thieves|others)": "ranks, threads, helpers",
    r"config\.describing": "config.rendezvous",
    r"config\.reaching": "config.single_copy",
    r"config\.mapping": "config.heaps_mapped",
    r"config\.pipelining": "config.pipelines",
    r"config\.spanning": "config.internode_windows",
    r"config\.willing": "config.helps_messages",
    r"onesided": "rma",
}
_GIVEN_UP = re.compile(r"\b(?:" + "|".join(f"({word})" for word in GIVEN_UP) + r")\b")

C_FAMILY = {".c", ".cpp", ".h", ".hpp", ".S"}
# These files contain the words of GIVEN_UP for the checks themselves.
SPELLS_WORDS = {"scripts/lint_prose.py", "tests/scripts/test_lint.py"}

SUBJECT = re.compile(r"[a-z0-9][\w/.+-]*(?:, [\w/.+-]+)*: \S.*")
MOST_SUBJECT = 72


@dataclass(frozen=True)
class Comment:
    """A comment or docstring. `trails`: code precedes it on the same line."""

    line: int
    text: str
    trails: bool = False


# --- finding comments ------------------------------------------------------------------------

# Strings come first in the pattern, so that a comment sign inside a string does not count.
_C_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(//[^\n]*)|(/\*.*?\*/)', re.DOTALL
)


def c_comments(source: str) -> Iterator[Comment]:
    block: list[str] = []
    first = last = 0
    for match in _C_TOKEN.finditer(source):
        text = match.group(1) or match.group(2)
        if text is None:
            continue
        line = source.count("\n", 0, match.start()) + 1
        begin = source.rfind("\n", 0, match.start()) + 1
        trails = bool(source[begin : match.start()].strip())
        if block and (trails or line != last + 1 or text.startswith("/*")):
            yield Comment(first, "\n".join(block))
            block = []
        if text.startswith("/*"):
            lines = [re.sub(r"^\s*\*(?!/)", "", part) for part in text[2:-2].split("\n")]
            yield Comment(line, "\n".join(lines), trails)
        elif trails:
            yield Comment(line, text[2:], trails)
        else:
            first = line if not block else first
            last = line
            block.append(text[2:])
    if block:
        yield Comment(first, "\n".join(block))


def hash_comments(lines: list[tuple[int, str, bool]]) -> Iterator[Comment]:
    """Joins the comments of consecutive lines, given as (line, text after '#', trails)."""
    block: list[str] = []
    first = last = 0
    for line, text, trails in lines:
        if block and (trails or line != last + 1):
            yield Comment(first, "\n".join(block))
            block = []
        if trails:
            yield Comment(line, text, trails)
            continue
        first = line if not block else first
        last = line
        block.append(text)
    if block:
        yield Comment(first, "\n".join(block))


def python_comments(source: str) -> Iterator[Comment]:
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            trails = bool(token.line[: token.start[1]].strip())
            found.append((token.start[0], token.string[1:], trails))
    yield from hash_comments(found)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield Comment(node.body[0].lineno, text)


def script_comments(source: str) -> Iterator[Comment]:
    """The comments of shell and CMake files: whole lines only, since a '#' within a line may be
    code.
    """
    lines = enumerate(source.split("\n"), 1)
    starts = ((line, text.lstrip()) for line, text in lines)
    yield from hash_comments(
        [(n, text[1:], False) for n, text in starts if text[:1] == "#" and text[:2] != "#!"]
    )


def comments_of(path: Path) -> list[Comment]:
    source = path.read_text(errors="replace")
    start = source[:40]
    if path.suffix in C_FAMILY:
        return list(c_comments(source))
    if path.suffix == ".py" or (start.startswith("#!") and "python" in start):
        return list(python_comments(source))
    if path.suffix in {".cmake", ".sh"} or path.name == "CMakeLists.txt" or start.startswith("#!"):
        return list(script_comments(source))
    return []


# --- judging prose ---------------------------------------------------------------------------


def sentences(text: str) -> Iterator[str]:
    """The sentences of a comment. Indented lines and list items are taken for pictures or tables,
    not for sentences.
    """
    prose: list[str] = []
    for line in [*text.split("\n"), ""]:
        is_picture = re.match(r"\s{2,}\S|\s*\||\s*[-*] ", line) is not None
        if line.strip() and not is_picture:
            prose.append(line.strip())
            continue
        yield from (s for s in re.split(r"(?<=[.!?:])\s+(?=[A-Z`(])", " ".join(prose)) if s)
        prose = []


def comment_faults(comment: Comment) -> Iterator[str]:
    if "SPDX-License-Identifier" in comment.text and "\n" not in comment.text:
        return
    text = re.sub(r"^.*SPDX-License-Identifier.*\n", "", comment.text)
    found = list(sentences(text))
    opener = re.match(r"\W*(\w+)", found[0]) if found else None
    if opener and opener[1] in OPENERS and not comment.trails:
        yield f"a comment does not open with '{opener[1]}': name its subject"
    for sentence in found:
        count = sum(any(c.isalnum() for c in word) for word in sentence.split())
        if count > MOST_WORDS:
            yield f"a sentence of {count} words, more than {MOST_WORDS}: '{sentence[:40]}...'"


def word_faults(name: str, source: str) -> Iterator[tuple[int, str]]:
    if name in SPELLS_WORDS:
        return
    for number, line in enumerate(source.split("\n"), 1):
        for match in _GIVEN_UP.finditer(line):
            better = list(GIVEN_UP.values())[match.lastindex - 1] if match.lastindex else ""
            yield number, f"'{match.group()}' is not used any more: {better}"


def faults_of(root: Path, path: Path) -> list[str]:
    name = str(path.relative_to(root))
    comments = comments_of(path)
    if not comments:
        return []
    found = [(c.line, fault) for c in comments for fault in comment_faults(c)]
    found += word_faults(name, path.read_text(errors="replace"))
    return [f"{name}:{line}: {fault}" for line, fault in sorted(found)]


# --- the allowance ---------------------------------------------------------------------------


def read_allowance(root: Path) -> dict[str, int]:
    file = root / ALLOWANCE
    return json.loads(file.read_text()) if file.exists() else {}


def common_end(one: str, other: str) -> int:
    """The number of equal path components at the end of both paths."""
    pairs = zip(reversed(one.split("/")), reversed(other.split("/")), strict=False)
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))


def lowered(allowed: dict[str, int], counts: Counter[str]) -> dict[str, int]:
    """The allowance, with each number lowered to the count of faults. A moved file keeps its
    number: its new path is the one with the longest common end.
    """
    new = {name for name in counts if name not in allowed}
    result = {}
    for name, number in allowed.items():
        heir = name
        if name not in counts:
            heir = max(sorted(new), key=lambda n: common_end(n, name), default=name)
            heir = heir if common_end(heir, name) > 0 else name
            new.discard(heir)
        if left := min(number, counts[heir]):
            result[heir] = left
    return dict(sorted(result.items()))


def prose_faults(root: Path, paths: list[Path], fix: bool) -> list[str]:
    found = {str(p.relative_to(root)): faults_of(root, p) for p in paths}
    counts = Counter({name: len(faults) for name, faults in found.items()})
    allowed = read_allowance(root)
    if fix and (fewer := lowered(allowed, counts)) != allowed:
        (root / ALLOWANCE).write_text(json.dumps(fewer, indent=0) + "\n")
        allowed = fewer
    result = []
    for name, faults in found.items():
        if len(faults) > allowed.get(name, 0):
            result += faults
    for name, number in allowed.items():
        if counts[name] < number:
            result.append(f"{ALLOWANCE}: {name} has {counts[name]} faults: scripts/lint --fix")
    return result


# --- commits ---------------------------------------------------------------------------------


def subject_fault(subject: str) -> str | None:
    if len(subject) > MOST_SUBJECT:
        return f"{len(subject)} characters, more than {MOST_SUBJECT}"
    return None if SUBJECT.fullmatch(subject) else "not of the form 'room: what changes'"


def commit_faults(root: Path, since: str) -> list[str]:
    """The faults in subjects of commits after `since`; none if that commit is unknown."""
    done = subprocess.run(
        ["git", "log", "--no-merges", "--format=%h %s", f"{since}..HEAD"],
        cwd=root,
        capture_output=True,
        text=True,
    )
    faults = []
    for line in done.stdout.splitlines() if done.returncode == 0 else []:
        short, _, subject = line.partition(" ")
        if fault := subject_fault(subject):
            faults.append(f"commit {short}: {fault}: {subject}")
    return faults
