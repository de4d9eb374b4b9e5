# SPDX-License-Identifier: BSD-3-Clause
"""Every output byte of a completing call is the same as without the library.

The program in tests/mpi/statuses prints a line for each kind of request, each call and each array
around the request. The test compares the lines of a plain run and a helped run.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, compiled, run
from manyhands_bench.mpis import MpiBuild

SOURCES = sorted((Path(__file__).parent / "statuses").glob("*.c"))
EVERYTHING_LONG = {
    "MH_THRESHOLD": "64K",
    "MH_EXCHANGE_THRESHOLD": "64K",
    "MH_HELP_THRESHOLD": "64K",
    "MH_MAPPED_HELP_THRESHOLD": "16K",
}
SETTINGS = {
    "forced": EVERYTHING_LONG,
    "default": {},
    "no memory": {**EVERYTHING_LONG, "MH_MEMORY": "none"},
}


def lines_of(mpi: MpiBuild, arm: Arm, words: list[str], env: dict[str, str]) -> dict[str, str]:
    program = compiled(mpi, "statuses", SOURCES)
    done = run(mpi, arm, 2, [str(program), *words], env, timeout_s=100)
    done.expect("PASS")
    lines = [line.partition(":") for line in done.out.splitlines() if ":" in line]
    return {name: rest for name, _, rest in lines}


def differences(plain: dict[str, str], helped: dict[str, str]) -> list[str]:
    assert plain.keys() == helped.keys()
    return [
        f"{name}:\n  plain  {rest}\n  helped {helped[name]}"
        for name, rest in plain.items()
        if helped[name] != rest
    ]


@pytest.mark.parametrize("outcome", ["success", "errors"])
@pytest.mark.parametrize(
    "settings", ["forced", "default", pytest.param("no memory", marks=pytest.mark.under(*QUICK))]
)
def test_statuses_are_as_plain(mpi: MpiBuild, helped: Arm, settings: str, outcome: str) -> None:
    words = ["errors"] if outcome == "errors" else []
    plain = lines_of(mpi, Arm("plain"), words, {})
    found = differences(plain, lines_of(mpi, helped, words, SETTINGS[settings]))
    assert not found, f"{len(found)} of {len(plain)} lines differ\n" + "\n".join(found[:40])
