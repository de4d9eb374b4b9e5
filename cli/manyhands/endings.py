# SPDX-License-Identifier: BSD-3-Clause
"""Being told to end: by a signal as by Ctrl-C, what was begun is ended and removed first.

For every command of ours. A program that takes our place (exec) has the signals as they were.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import NoReturn

ENDINGS = (signal.SIGTERM, signal.SIGHUP)
GRACE_S = 5.0


def end(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


def catch_endings() -> None:
    """From here on those signals unwind the stack; of the main thread, as Python wants it."""
    for number in ENDINGS:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


def end_session(process: subprocess.Popen[str]) -> None:
    """Of a launcher that leads its session: it gets time to end its ranks; then all of it goes."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.wait(timeout=GRACE_S)
            return
