# SPDX-License-Identifier: BSD-3-Clause
"""How `mh` speaks to its user: one line on stderr, the cause and what to do about it.

Exit codes are those a shell user expects: 2 for a usage error, 126 for a program that is there but
cannot be executed, 127 for one that is not there, 1 for any other failure of `mh` itself.
"""

from __future__ import annotations

import sys
from typing import NoReturn

FAILURE = 1
USAGE = 2
NOT_EXECUTABLE = 126
NOT_FOUND = 127


def note(message: str) -> None:
    print(f"manyhands: {message}", file=sys.stderr, flush=True)


def fail(message: str, code: int = FAILURE) -> NoReturn:
    note(message)
    sys.exit(code)
