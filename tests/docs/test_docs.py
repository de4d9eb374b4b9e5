# SPDX-License-Identifier: BSD-3-Clause
"""The documentation keeps to what there is: generated pages are current, names and links exist."""

from __future__ import annotations

import importlib.util
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
USER_PAGES = [DOCS / f"{name}.md" for name in ("how-it-works", "slurm", "containers", "settings")]
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
FENCED = re.compile(r"```.*?```", re.DOTALL)


def script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settings() -> set[str]:
    table = json.loads((ROOT / "src/base/settings.json").read_text())
    return {setting["key"] for setting in table["settings"]}


def test_settings_page_is_what_its_script_writes() -> None:
    written = script(DOCS / "make_settings.py").page()
    current = (DOCS / "settings.md").read_text() == written
    assert current, "run python docs/make_settings.py"


def test_every_setting_is_on_the_settings_page() -> None:
    page = (DOCS / "settings.md").read_text()
    assert {key for key in settings() if f"| `{key}` |" in page} == settings()


def test_picture_is_what_its_script_draws() -> None:
    drawn = script(DOCS / "img" / "how_it_works.py").draw()
    current = (DOCS / "img" / "how-it-works.svg").read_text() == drawn
    assert current, "run python docs/img/how_it_works.py"


def test_picture_is_well_formed_and_described() -> None:
    root = ElementTree.parse(DOCS / "img" / "how-it-works.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title") is not None and root.find(f"{space}desc") is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    targets = LINK.findall(FENCED.sub("", page.read_text()))
    local = [t for t in targets if not re.match(r"[a-z]+:", t)]
    assert [t for t in local if not (page.parent / t).exists()] == []


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.name)
def test_settings_and_commands_named_exist(page: Path) -> None:
    text = page.read_text()
    commands = {p.stem for p in (ROOT / "cli/manyhands/commands").glob("[a-z]*.py")}
    # MH_HEAP is of the heap's own library.
    named_keys = set(re.findall(r"\bMH_[A-Z_]+\b", text)) - {"MH_KEY", "MH_HEAP"}
    named_commands = set(re.findall(r"\bmh ([a-z]+)\b", text))
    assert named_keys <= settings()
    assert named_commands and named_commands <= commands
