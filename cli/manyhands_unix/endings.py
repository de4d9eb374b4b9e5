# SPDX-License-Identifier: BSD-3-Clause
"""Signals that end a command: the command first ends its processes and removes temporary files.

For the commands of `mh` and the wrapper compilers. A program that replaces a command (exec) gets
the original signal handlers.
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
    """Ends the command by unwinding its stack. A second signal, such as `timeout` sends, does not
    stop the clean-up.
    """
    for ending in ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    sys.exit(128 + number)


def catch_endings() -> None:
    """Makes SIGTERM and SIGHUP unwind the stack. Call it in the main thread, as Python requires."""
    for number in ENDINGS:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


def end_session(process: subprocess.Popen[str]) -> None:
    """Ends a launcher that leads its session. If it still runs after GRACE_S, kills the whole
    session.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.wait(timeout=GRACE_S)
            return
