# SPDX-License-Identifier: BSD-3-Clause
"""What src/mpi/generate.py makes of an entry of calls.json, and which entries it refuses."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pympistandard as std
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "src/mpi/generate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    std.use_api_version()
    return module


def test_what_is_done_instead_comes_before_the_call(generate: ModuleType) -> None:
    call = generate.call_of("Put_c", {"instead": "rma::put(win, origin_count)"}, "turns")
    lines = generate.gate_body(call).splitlines()
    assert "  if (const auto done = rma::put(win, origin_count)) return *done;" in lines
    assert any(line.strip().startswith("return next.Put_c(") for line in lines)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"instead": "rma::put(win)", "before": "arrivals::window(win)"}, "stands alone"),
        ({"instead": "rma::put()"}, "names none of its parameters"),
        ({"insted": "rma::put(win)"}, "unknown key insted"),
        ({}, "why intercept it"),
    ],
)
def test_an_entry_that_cannot_be_meant_is_refused(
    generate: ModuleType, entry: dict[str, str], words: str
) -> None:
    with pytest.raises(generate.TableError, match=words):
        generate.call_of("Put", entry, "turns")
