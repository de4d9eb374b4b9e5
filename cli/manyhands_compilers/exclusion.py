# SPDX-License-Identifier: BSD-3-Clause
"""Exclusion among all ranks of a node, for `ws critical` and `ws atomic`.

The compiler's own code excludes the threads of one process. Calls of the library around that code
(`__mh_ws_lock`, `__mh_ws_unlock`) lock a name for all processes of the node. A name is passed as a
number, the same from every language. An atomic update of up to eight bytes is a single instruction,
which excludes other processes, too. A wider update takes the lock WIDE_ATOMICS, which all wide
updates share. The condition on the width is a constant expression, which the compiler evaluates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# The name of the lock for atomic updates of more than eight bytes. No critical section of a program
# can have the same name, because names of critical sections have no blanks.
WIDE_ATOMICS = "atomic updates of more than eight bytes"
LINE_OF_HASH = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)  # line markers and other directives
QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*'")


def lock_number(name: str) -> int:
    """A hash (FNV-1a) of the name that is not negative as a signed number of eight bytes."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value & (1 << 63) - 1


# --- C and C++ --------------------------------------------------------------------------------


def around(name: str, condition: str = "") -> tuple[str, str]:
    """The texts before and after a statement that lock and unlock a name."""

    def call(what: str) -> str:
        guard = f"{condition} && __mh_ws_{what}" if condition else f"__mh_ws_{what}"
        return f"if ({guard}) __mh_ws_{what}({lock_number(name)}ULL);"

    return f"{{ {call('lock')}", f" {call('unlock')} }}"


def is_wide(statement: str, reads: bool) -> str:
    """A condition in C: a variable that an atomic construct updates (or reads) has more than eight
    bytes.
    """
    widths = [f"sizeof({operand}) > 8" for operand in dict.fromkeys(operands(statement, reads))]
    return f"({' || '.join(widths)})" if widths else "0"


def operands(statement: str, reads: bool) -> Iterator[str]:
    """The variables that the statements of an atomic construct change. With `reads`, also the
    variable that `v = x` reads.
    """
    code = " ".join(LINE_OF_HASH.sub("", statement).split())
    for part in code.removeprefix("{").removesuffix("}").split(";"):
        rest, reads_rest = part.strip(), True
        while (place := assignment(rest)) is not None:
            yield rest[: place.start()].strip()
            reads_rest = reads and place.group() == "="
            rest = rest[place.end() :].strip()
        if rest and (reads_rest or rest.startswith(("++", "--")) or rest.endswith(("++", "--"))):
            yield rest.replace("++", " ").replace("--", " ").strip()


def assignment(expression: str) -> re.Match[str] | None:
    """The first assignment operator outside of parentheses."""
    depth = 0
    for match in re.finditer(
        rf"{QUOTED.pattern}|[(\[{{]|[)\]}}]|==|!=|<=>|<<=|>>=|[-+*/%&^|]=|<=|>=|->|=", expression
    ):
        token = match.group()
        depth += 1 if token in "([{" else -1 if token in ")]}" else 0
        if depth == 0 and token.endswith("=") and token not in ("==", "!=", "<=", ">="):
            return match
    return None


# --- Fortran ----------------------------------------------------------------------------------


def lock_calls(name: str, condition: str = "") -> tuple[str, str]:
    """The statements that lock and unlock a name, each after `condition`."""
    number = f"{lock_number(name)}_8"
    return f"{condition}call mh_ws_lock({number})", f"{condition}call mh_ws_unlock({number})"


def wide_in_fortran(statements: list[str], reads: bool) -> str:
    """The text `if (...) ` with a condition on the width of the variables of an atomic
    construct.
    """
    variables: dict[str, None] = {}
    for statement in statements:
        match = EQUALS.search(without_brackets(statement))
        if match:
            variables[statement[: match.start()].strip()] = None
        if match and reads:
            variables[statement[match.end() :].strip()] = None
    widths = [f"storage_size({variable}) > 64" for variable in variables]
    return f"if ({' .or. '.join(widths)}) " if widths else ""


EQUALS = re.compile(r"(?<![=/<>])=(?![=>])")


def without_brackets(text: str) -> str:
    """The text with blanks in place of quoted text and of text in parentheses."""
    depth, result = 0, []
    for character in QUOTED.sub(lambda match: " " * len(match.group()), text):
        depth -= character == ")"
        result.append(" " if depth else character)
        depth += character == "("
    return "".join(result)
