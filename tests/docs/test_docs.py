# SPDX-License-Identifier: BSD-3-Clause
"""The documentation matches the repository: generated pages are current, names and links exist."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RECORDS = sorted(path for path in (DOCS / "decisions").glob("*/*.md"))
RESULTS = sorted((DOCS / "results").glob("*.md"))
USER_PAGES = [DOCS / f"{name}.md" for name in ("how-it-works", "slurm", "containers", "settings")]
USER_PAGES += [DOCS / "readers" / f"{name}.md" for name in ("slow-program", "administrator")]
LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)")
FENCED = re.compile(r"```.*?```", re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@cache
def repository() -> set[Path]:
    """Returns the files of the repository, also those not committed yet, and their folders."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    named = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    files = [path for path in named if path.exists()]
    folders = {folder for path in files for folder in path.relative_to(ROOT).parents}
    return {*files, *(ROOT / folder for folder in folders)}


def pages() -> list[Path]:
    return sorted(path for path in repository() if path.suffix == ".md")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def anchors(page: Path) -> set[str]:
    """Returns the anchors of the page's headings, as GitHub makes them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text())):
        text = LINK.sub("]", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(slug if not seen[slug] else f"{slug}-{seen[slug]}")
        seen[slug] += 1
    return found


def script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look up their module there
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


PICTURES = {"how_it_works": "how-it-works.svg", "by_ranks": "by-ranks.svg"}


@pytest.mark.parametrize("name", PICTURES)
def test_picture_is_what_its_script_draws(name: str) -> None:
    drawn = script(DOCS / "img" / f"{name}.py").draw()
    current = (DOCS / "img" / PICTURES[name]).read_text() == drawn
    assert current, f"run python docs/img/{name}.py"


@pytest.mark.parametrize("name", PICTURES)
def test_picture_is_well_formed_and_described(name: str) -> None:
    root = ElementTree.parse(DOCS / "img" / PICTURES[name]).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title") is not None and root.find(f"{space}desc") is not None


def test_page_of_files_is_what_its_script_writes() -> None:
    written = script(DOCS / "make_files.py").page()
    current = (DOCS / "files.md").read_text() == written
    assert current, "run python docs/make_files.py"


def test_index_of_decisions_is_what_its_script_writes() -> None:
    written = script(DOCS / "make_decisions.py").page()
    current = (DOCS / "decisions" / "README.md").read_text() == written
    assert current, "run python docs/make_decisions.py"


def leads_somewhere(page: Path, target: str) -> bool:
    """Returns whether a link of the page names an existing file or folder and a heading of it."""
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if file not in repository():
        return False
    return not anchor or (file.suffix == ".md" and anchor in anchors(file))


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    targets = LINK.findall(FENCED.sub("", page.read_text()))
    inner = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in inner if not leads_somewhere(page, target)] == []


def test_links_to_missing_headings_and_built_files_are_found() -> None:
    page = DOCS / "light-tasks.md"
    assert leads_somewhere(page, "lci.md#transports") and leads_somewhere(page, "#performance")
    assert not leads_somewhere(page, "results/lci.md#light-tasks")
    assert not leads_somewhere(page, "results/ult.md")
    assert not leads_somewhere(page, "../examples#stencil")
    assert not leads_somewhere(page, "../.git/HEAD")


def test_readme_has_at_most_120_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_design_has_at_most_15_kilobytes() -> None:
    assert len((DOCS / "design.md").read_bytes()) <= 15_000


def test_design_opens_with_a_glossary_of_at_most_40_words() -> None:
    text = (DOCS / "design.md").read_text()
    assert HEADING.findall(text)[1] == "Words"
    words = text.partition("## Words")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!word \|)(.+?) \|", words, re.MULTILINE)
    assert 20 <= len(rows) <= 40


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_decision_records_are_short_and_complete(record: Path) -> None:
    text = record.read_text()
    assert len(text.splitlines()) <= 30
    assert text.startswith("# ")
    parts = ("Status:", "Context.", "Decision.")
    assert [part for part in parts if f"\n**{part}** " not in text] == []


def test_table_of_changes_on_the_tour_has_at_most_15_rows() -> None:
    table = (DOCS / "tour.md").read_text().partition("## Where a change goes")[2]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert 0 < len(rows) - 2 <= 15  # 2 rows are the head and the rule


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.name)
def test_settings_and_commands_named_exist(page: Path) -> None:
    text = page.read_text()
    commands = {p.stem for p in (ROOT / "cli/manyhands/commands").glob("[a-z]*.py")}
    # MH_HEAP is a setting of libmanyhands-heap.so alone, so it is not in the table of settings.
    # MH_KEY is a placeholder.
    named_keys = set(re.findall(r"\bMH_[A-Z_]+\b", text)) - {"MH_KEY", "MH_HEAP"}
    named_commands = set(re.findall(r"\bmh ([a-z]+)\b", text))
    assert named_keys <= settings()
    assert named_commands and named_commands <= commands


@pytest.mark.parametrize("page", RESULTS, ids=name_of)
def test_results_say_when_and_on_which_machine_they_were_measured(page: Path) -> None:
    text = page.read_text()
    assert re.search(r"\b\d{1,2} [A-Z][a-z]+ 20\d\d\b", text)
    assert re.search(r"\bcores?\b", text)


def test_bodies_on_the_page_of_calls_are_what_the_generator_writes() -> None:
    page = (DOCS / "calls.md").read_text()
    chapter = json.loads(re.findall(r"```json\n(.*?)```", page, re.DOTALL)[0])
    shown = re.findall(r"```c\+\+\n(.*?)```", page, re.DOTALL)
    generator = script(ROOT / "src" / "mpi" / "generate.py")
    generator.std.use_api_version()
    calls = generator.read_calls({"chapters": [chapter], "mpi4": [], "uses": []})
    bodies = {call.name: generator.given_body(call) for call in calls}
    assert [text.strip() for text in shown] == [bodies["Send"], bodies["Bsend"]]
