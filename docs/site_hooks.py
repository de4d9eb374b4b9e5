# SPDX-License-Identifier: BSD-3-Clause
"""Makes the site of mkdocs.yml from pages that are written for the repository.

* Pages outside of docs/, such as the README.md of an example, join the site below `repository/`.
* The reference of the public headers joins the site below `api/`, where doxygen is installed.
* Links go to the place that a page has on the site. A link to a folder leads to its README.md, a
  link to the public headers to their reference. A link to any other source becomes its words alone.
* Anchors have the form of the repository's own pages: lower case, `-` for blanks, no punctuation.

MkDocs calls the functions `on_...` by their names. Limits: links have the form [words](target), the
only form that the tests of links know as well.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

OUTSIDE = "repository/"
API = "api/"
REFERENCE = API + "files.html"
HEADERS = "include/manyhands"
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")


def slug(heading: str, _separator: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def outside_pages(docs: Path) -> dict[str, Path]:
    """Returns the pages of the repository outside of the folder `docs`, by their path on the
    site.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    done = subprocess.run(command, cwd=docs.parent, capture_output=True, check=True)
    names = [name for name in done.stdout.decode().split("\0") if name]
    pages = {OUTSIDE + name: docs.parent / name for name in names}
    return {
        name: page
        for name, page in pages.items()
        if page.exists() and not page.is_relative_to(docs)
    }


# --- reference of the headers -----------------------------------------------------------------

# The temporary folders of the reference. They must exist until MkDocs has copied their files, at
# the end of the build.
written: list[tempfile.TemporaryDirectory[str]] = []


def reference(docs: Path) -> dict[str, Path]:
    """Makes the reference of the headers and returns its files by site path; none without
    doxygen.
    """
    if shutil.which("doxygen") is None or not (docs.parent / HEADERS).is_dir():
        return {}
    written.append(tempfile.TemporaryDirectory(prefix="manyhands-api-"))
    target = Path(written[-1].name)
    options = f"\nOUTPUT_DIRECTORY = {target}\nWARN_AS_ERROR = FAIL_ON_WARNINGS\n"
    text = (docs / "Doxyfile").read_text(encoding="utf-8") + options
    done = subprocess.run(
        ["doxygen", "-"], cwd=docs.parent, input=text, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise PluginError(f"doxygen: {done.stderr}")
    pages = target / "html"
    files = [path for path in pages.rglob("*") if path.is_file()]
    return {API + path.relative_to(pages).as_posix(): path for path in files}


# --- links ------------------------------------------------------------------------------------


def place(file: Path, docs: Path, files: Files) -> str | None:
    """Returns the path of a page or picture within the site's sources; None if the site lacks
    it.
    """
    if file == docs.parent / HEADERS:
        return REFERENCE if files.get_file_from_path(REFERENCE) else None
    if file.is_dir():
        beside = file.with_suffix(".md")
        file = file / "README.md" if (file / "README.md").exists() else beside
    if not file.is_file() or file.suffix == ".py":
        return None
    if file.is_relative_to(docs):
        return file.relative_to(docs).as_posix()
    return OUTSIDE + file.relative_to(docs.parent).as_posix() if file.suffix == ".md" else None


def moved(link: re.Match[str], page: Page, docs: Path, files: Files) -> str:
    """Returns a link of the page, with its target changed to the target's place on the site."""
    words, target = link.groups()
    path, mark, anchor = target.partition("#")
    file = (Path(str(page.file.abs_src_path)).parent / path).resolve()
    if not path or re.match(r"[a-z]+:", target) or not file.exists():
        return link.group()  # MkDocs complains of a file that is missing
    there = place(file, docs, files)
    if there is None:
        return words
    up = "../" * page.file.src_uri.count("/")
    return f"[{words}]({up}{there}{mark}{anchor})"


# --- called by MkDocs -------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    toc: dict[str, Any] = config.mdx_configs.setdefault("toc", {})
    toc["slugify"] = slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    docs = Path(config.docs_dir).resolve()
    for name, path in {**outside_pages(docs), **reference(docs)}.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    docs = Path(config.docs_dir).resolve()
    parts = FENCED.split(markdown)
    for i in range(0, len(parts), 2):
        parts[i] = LINK.sub(lambda link: moved(link, page, docs, files), parts[i])
    return "".join(parts)


def on_post_build(config: MkDocsConfig) -> None:
    while written:
        written.pop().cleanup()
