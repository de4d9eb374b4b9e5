# SPDX-License-Identifier: BSD-3-Clause
"""The site of mkdocs.yml builds without a complaint, and its links name existing pages."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
READERS = sorted((ROOT / "docs" / "readers").glob("*.md"))

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="scripts/bootstrap has not installed mkdocs"
)


class Page(HTMLParser):
    """The anchors and the links of a page, and the files that a browser loads with it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values.get("id", ""), values.get("name", "")}
        if tag == "a":
            self.links.add(values.get("href", ""))
        elif tag in {"link", "script", "img"}:
            self.loads.add(values.get("href") or values.get("src", ""))


def build(target: Path, *, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    # The option --quiet is not given: it would hide warnings from --strict as well.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    command += ["--config-file", str(config), "--site-dir", str(target)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = build(target)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def broken(pages: dict[Path, Page]) -> Iterator[str]:
    ours = {path: page for path, page in pages.items() if path.parent.name != "api"}
    for path, page in ours.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or not (parts.path or parts.fragment):
                continue
            file = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            there = pages.get(file)
            missing = parts.fragment and there and unquote(parts.fragment) not in there.anchors
            if missing or not file.is_file():
                yield f"{path.name}: {link}"


def test_links_lead_to_pages_and_headings_of_the_site(pages: dict[Path, Page]) -> None:
    assert sorted(broken(pages)) == []


def test_pages_load_nothing_from_other_hosts(pages: dict[Path, Page]) -> None:
    loads = {load for page in pages.values() for load in page.loads}
    assert loads and {load for load in loads if urlsplit(load).netloc} == set()


def test_each_kind_of_reader_begins_at_the_start_page(site: Path, pages: dict[Path, Page]) -> None:
    links = pages[site / "index.html"].links
    assert len(READERS) == 5
    assert {f"readers/{page.stem}.html" for page in READERS} <= links


def test_pages_outside_of_the_folder_are_on_the_site(site: Path) -> None:
    for page in ("examples/bspmm", "libs/lci", "tests"):
        assert (site / "repository" / page / "index.html").is_file()
    assert (site / "repository" / "CONTRIBUTING.html").is_file()


@pytest.mark.skipif(shutil.which("doxygen") is None, reason="doxygen is not installed")
def test_comments_of_public_headers_are_on_the_site(site: Path, pages: dict[Path, Page]) -> None:
    assert "../api/files.html" in pages[site / "readers" / "libraries.html"].links
    headers = sorted((ROOT / "include" / "manyhands").rglob("*.h*"))
    listed = (site / "api" / "files.html").read_text()
    assert len(headers) > 15 and [h.name for h in headers if h.name not in listed] == []
    queue = (site / "api" / "classmh_1_1lci_1_1Queue.html").read_text()
    assert "Returns the next message, or nothing." in queue  # a comment before the function
    assert "a thread that reads the count" not in queue  # a comment within the function
    scheduler = (site / "api" / "ult_8h.html").read_text()
    assert "Light tasks for C." in scheduler


def small_site(folder: Path, link: str) -> subprocess.CompletedProcess[str]:
    """Builds a site of two pages; one page has the link."""
    docs = folder / "docs"
    docs.mkdir()
    (docs / "lci.md").write_text("# A page\n\n## Transports\n")
    (docs / "index.md").write_text(f"# Start\n\n[words]({link})\n")
    (folder / "LICENSE").write_text("words")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[0]
    text = text.replace("docs/site_hooks.py", str(ROOT / "docs" / "site_hooks.py"))
    config = folder / "mkdocs.yml"
    config.write_text(text)
    return build(folder / "site", config=config)


@pytest.mark.parametrize(
    "link", ["lci.md#nothing", "nowhere.md", "../nowhere", "lci.md#Transports"]
)
def test_a_dead_link_fails_the_build(link: str, tmp_path: Path) -> None:
    done = small_site(tmp_path, link)
    assert done.returncode != 0
    assert link in done.stdout + done.stderr


@pytest.mark.parametrize("link", ["lci.md#transports", "../LICENSE", "../docs/lci.md"])
def test_a_link_of_the_repository_leads_to_the_page_or_is_left_out(
    link: str, tmp_path: Path
) -> None:
    done = small_site(tmp_path, link)
    assert done.returncode == 0, done.stdout + done.stderr
    links = Page(tmp_path / "site" / "index.html").links
    assert any(one.startswith("lci.html") for one in links) and "../LICENSE" not in links
