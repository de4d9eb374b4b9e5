# SPDX-License-Identifier: BSD-3-Clause
"""Being told to end: by a signal as by Ctrl-C, what was begun is ended and removed first."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

ENDINGS = (signal.SIGTERM, signal.SIGHUP)


def end(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


def catch_endings() -> None:
    """From here on those signals unwind the stack; of the main thread, as Python wants it."""
    for number in ENDINGS:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)
