# SPDX-License-Identifier: BSD-3-Clause
"""Tests scripts/bootstrap with missing packages, as root and as another user."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bootstrap"


@pytest.fixture
def bootstrap() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("bootstrap", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bootstrap", loader))
    sys.modules["bootstrap"] = module
    loader.exec_module(module)
    return module


class Apt:
    """A stand-in for apt-get; `refuses` names packages that it cannot install."""

    def __init__(self, *refuses: str) -> None:
        self.calls: list[list[str]] = []
        self.installed: set[str] = set()
        self.refuses = set(refuses)

    def __call__(self, arguments: list[str]) -> bool:
        self.calls.append(arguments)
        wanted = {word for word in arguments[1:] if not word.startswith("-")}
        if arguments[0] == "install" and not wanted & self.refuses:
            self.installed |= wanted
        return not wanted & self.refuses


@pytest.fixture
def machine(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Apt:
    """Returns apt-get of a machine without the packages `alpha` (build) and `beta` (test)."""
    apt = Apt()
    needs = [
        bootstrap.Need("build", "here", lambda: True, "present"),
        bootstrap.Need("build", "alpha", lambda: "alpha" in apt.installed, "one reason"),
        bootstrap.Need("test", "beta", lambda: "beta" in apt.installed, "another reason"),
    ]
    monkeypatch.setattr(bootstrap, "NEEDS", needs)
    monkeypatch.setattr(bootstrap, "apt", apt)
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return apt


def test_root_installs_what_is_missing_and_no_more(bootstrap: ModuleType, machine: Apt) -> None:
    bootstrap.install_system_packages("build")
    assert machine.calls == [["update"], ["install", "--no-install-recommends", "alpha"]]


def test_a_group_includes_the_groups_before_it(bootstrap: ModuleType, machine: Apt) -> None:
    bootstrap.install_system_packages("test")
    assert machine.installed == {"alpha", "beta"}


def test_nothing_missing_asks_apt_for_nothing(
    bootstrap: ModuleType, machine: Apt, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.installed = {"alpha", "beta"}
    bootstrap.install_system_packages("test")
    assert machine.calls == []
    assert "system packages for 'test': all installed" in capsys.readouterr().out


def test_one_package_that_cannot_be_had_does_not_stop_the_others(
    bootstrap: ModuleType, machine: Apt, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.refuses = {"beta"}
    bootstrap.install_system_packages("test")
    assert machine.installed == {"alpha"}
    assert "still missing: beta (another reason)" in capsys.readouterr().out


def test_another_user_is_shown_the_command(
    bootstrap: ModuleType,
    machine: Apt,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    bootstrap.install_system_packages("test")
    assert machine.calls == []
    command = "apt-get update && apt-get install --no-install-recommends alpha beta"
    assert f"sudo sh -c '{command}'" in capsys.readouterr().out


def test_an_unknown_group_is_a_usage_error() -> None:
    command = [sys.executable, str(SCRIPT), "everything"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "invalid choice: 'everything'" in result.stderr
