# SPDX-License-Identifier: BSD-3-Clause
"""Messages of `mh` to its user: each a line on stderr with the cause and the remedy.

Exit codes follow the shell: 2 for a usage error, 126 for a program that exists but cannot be
executed, and 127 for a program that does not exist. Any other failure of `mh` itself gives 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

FAILURE = 1
USAGE = 2
NOT_EXECUTABLE = 126
NOT_FOUND = 127
INTERRUPTED = 130


def note(message: str) -> None:
    print(f"manyhands: {message}", file=sys.stderr, flush=True)


def not_there(word: str) -> NoReturn:
    """Exits because `word` names no program."""
    hint = "give its path, like ./app" if "/" not in word else "check the path"
    if "/" not in word and Path(word).exists():
        hint = f"it is not on the PATH; did you mean ./{word}?"
    fail(f"cannot find the program {word}: {hint}", NOT_FOUND)


def fail(message: str, code: int = FAILURE) -> NoReturn:
    note(message)
    sys.exit(code)
