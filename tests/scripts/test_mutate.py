# SPDX-License-Identifier: BSD-3-Clause
"""The table of scripts/mutate matches this source."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "mutate"


def load() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("mutate", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    sys.modules["mutate"] = module
    loader.exec_module(module)
    return module


MUTATE = load()


@pytest.mark.parametrize("mutation", MUTATE.MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_changes_its_file(mutation) -> None:
    text = (MUTATE.ROOT / mutation.file).read_text()
    assert MUTATE.mutated(mutation) != text
    assert all((MUTATE.ROOT / path).exists() for path in mutation.tests)


def test_names_are_told_apart() -> None:
    names = [mutation.name for mutation in MUTATE.MUTATIONS]
    assert len(set(names)) == len(names)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True)


def test_the_list_has_every_kind() -> None:
    done = run("--list")
    assert done.returncode == 0
    assert all(mutation.name in done.stdout for mutation in MUTATE.MUTATIONS)


def test_an_unknown_kind_is_a_usage_error() -> None:
    done = run("--only", "no-such-help")
    assert done.returncode == 2
    assert "no-such-help is not in the table" in done.stderr
