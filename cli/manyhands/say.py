# SPDX-License-Identifier: BSD-3-Clause
"""How `mh` speaks to its user: one line on stderr, the cause and what to do about it.

Exit codes are those a shell user expects: 2 for a usage error, 126 for a program that is there but
cannot be executed, 127 for one that is not there, 1 for any other failure of `mh` itself.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

FAILURE = 1
USAGE = 2
NOT_EXECUTABLE = 126
NOT_FOUND = 127


def note(message: str) -> None:
    print(f"manyhands: {message}", file=sys.stderr, flush=True)


def not_there(word: str) -> NoReturn:
    """Ends because no program of that name exists."""
    hint = "give its path, like ./app" if "/" not in word else "check the path"
    if "/" not in word and Path(word).exists():
        hint = f"it is not on the PATH; did you mean ./{word}?"
    fail(f"cannot find the program {word}: {hint}", NOT_FOUND)


def fail(message: str, code: int = FAILURE) -> NoReturn:
    note(message)
    sys.exit(code)
