# SPDX-License-Identifier: BSD-3-Clause
"""Steps of a test: commands that run to their end, without input and within a time."""

from __future__ import annotations

import subprocess
from pathlib import Path

LIMIT_S = 200  # time limit of a step


def done(command: list[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        **options,  # type: ignore[call-overload]
    )


def succeeded(command: list[str | Path], **options: object) -> str:
    """Returns the output of a command, which must succeed."""
    result = done(command, **options)
    assert result.returncode == 0, f"{command}:\n{result.stdout}{result.stderr}"
    return result.stdout
