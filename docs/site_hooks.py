# SPDX-License-Identifier: BSD-3-Clause
"""Makes the site of mkdocs.yml from pages that are written for the repository.

* Pages outside of docs/, such as the README.md of an example, join the site below `repository/`.
* Links go to the place that a page has on the site. A link to a folder leads to its README.md. A
  link to a source file, which the site does not have, becomes its words alone.
* Anchors are those of the repository's pages: small letters, `-` for blanks, no other signs.

MkDocs calls the functions `on_...` by their names. Limits: links have the form [words](target), the
only form that the tests of links know as well.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

OUTSIDE = "repository/"
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")


def slug(heading: str, _separator: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def outside_pages(docs: Path) -> list[Path]:
    """Returns the pages of the repository that are not in the folder `docs`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    done = subprocess.run(command, cwd=docs.parent, capture_output=True, check=True)
    pages = [docs.parent / name for name in done.stdout.decode().split("\0") if name]
    return [page for page in pages if page.exists() and not page.is_relative_to(docs)]


def place(file: Path, docs: Path) -> str | None:
    """Returns the path of a page or picture within the site's sources, if the site has it."""
    if file.is_dir():
        beside = file.with_suffix(".md")
        file = file / "README.md" if (file / "README.md").exists() else beside
    if not file.is_file() or file.suffix == ".py":
        return None
    if file.is_relative_to(docs):
        return file.relative_to(docs).as_posix()
    return OUTSIDE + file.relative_to(docs.parent).as_posix() if file.suffix == ".md" else None


def moved(link: re.Match[str], source: Path, here: str, docs: Path) -> str:
    """Returns a link of the page `source` as it has to be at `here`."""
    words, target = link.groups()
    path, mark, anchor = target.partition("#")
    file = (source.parent / path).resolve()
    if not path or re.match(r"[a-z]+:", target) or not file.exists():
        return link.group()  # MkDocs complains of a file that is missing
    there = place(file, docs)
    if there is None:
        return words
    up = "../" * here.count("/")
    return f"[{words}]({up}{there}{mark}{anchor})"


# --- called by MkDocs -------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    toc: dict[str, Any] = config.mdx_configs.setdefault("toc", {})
    toc["slugify"] = slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    docs = Path(config.docs_dir).resolve()
    for page in outside_pages(docs):
        name = OUTSIDE + page.relative_to(docs.parent).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(page)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    docs, source = Path(config.docs_dir).resolve(), Path(str(page.file.abs_src_path))

    def fit(link: re.Match[str]) -> str:
        return moved(link, source, page.file.src_uri, docs)

    parts = FENCED.split(markdown)
    parts[::2] = [LINK.sub(fit, text) for text in parts[::2]]
    return "".join(parts)
