# SPDX-License-Identifier: BSD-3-Clause
"""Runs a launcher (mpiexec or lcrun) in a process group of its own, so that a time limit also ends
the processes that the launcher has started.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path


def run(
    command: list[str | Path], environment: dict[str, str], limit_s: float, errors: int
) -> tuple[int, str] | None:
    """The exit code and the output; None if the limit ended the run. `errors`: where the error
    output goes, subprocess.STDOUT or DEVNULL. `environment` is added to that of the caller.
    """
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    ) as launched:
        try:
            output, _ = launched.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(launched.pid, signal.SIGKILL)
            return None
    return launched.returncode, output
