# SPDX-License-Identifier: BSD-3-Clause
"""Writes the manual pages into a folder, from the help of the commands themselves.

Usage: python docs/make_man.py FOLDER. The script needs the packages of `mh`. It writes a page for
`mh`, for each command of `mh`, and for each compiler. Installations run the script, so no page is
stored.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "cli"))

from manyhands import __version__  # noqa: E402
from manyhands.main import application  # noqa: E402
from manyhands_compilers.main import HELP, WORDS  # noqa: E402
from typer.main import get_command  # noqa: E402

COMPILERS = ("language", "pragma", "variable", "mpicc", "extension", "cmake")


def escaped(text: str) -> str:
    """Escapes text for roff: no line starts a request, and hyphens stay hyphens when copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def prose(text: str) -> str:
    """Converts the Markdown of help texts: **bold** and `code` become bold, an empty line ends a
    paragraph.
    """
    paragraphs = re.split(r"\n\s*\n", text.strip())
    joined = "\n.PP\n".join(escaped(" ".join(part.split())) for part in paragraphs)
    return re.sub(r"\*\*(.+?)\*\*|`(.+?)`", lambda m: f"\\fB{m[1] or m[2]}\\fR", joined)


def head(name: str, summary: str) -> str:
    title = f'.TH "{name.upper()}" 1 "" "Manyhands {__version__}" "Manyhands"\n'
    return f"{title}.SH NAME\n{escaped(name)} \\- {prose(summary)}\n"


def section(title: str, text: str) -> str:
    return f".SH {title}\n{text}\n" if text else ""


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;])\s", " ".join(text.split()), maxsplit=1)[0].rstrip(".;")


def parameters(command: Any, context: Any) -> str:
    """The arguments and options that --help lists, each with its help text."""
    records = (parameter.get_help_record(context) for parameter in command.params)
    return "\n".join(f".TP\n\\fB{escaped(r[0])}\\fR\n{prose(r[1])}" for r in records if r)


def page(command: Any, name: str, others: list[str]) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    listed = ""
    for word in getattr(command, "commands", {}):
        sub = command.commands[word]
        listed += f".TP\n\\fB{escaped(f'{name} {word}')}\\fR\n{prose(first_sentence(sub.help))}\n"
    return (
        head(name.replace(" ", "-"), first_sentence(command.help))
        + section("SYNOPSIS", f"\\fB{escaped(name)}\\fR {escaped(usage)}")
        + section("DESCRIPTION", prose(command.help))
        + section("COMMANDS", listed.rstrip())
        + section("OPTIONS", parameters(command, context))
        + section("EXAMPLE", prose((command.epilog or "").removeprefix("Example: ")))
        + section("SEE ALSO", ", ".join(f"\\fB{escaped(other)}\\fR(1)" for other in others))
    )


def compiler_page(kind: str) -> str:
    text = HELP.format(kind=kind, **dict(zip(COMPILERS, WORDS[kind], strict=True)))
    summary = f"compile {WORDS[kind][0]} whose marked loops waiting ranks may take"
    return head(kind, summary) + section("DESCRIPTION", f".nf\n{escaped(text.rstrip())}\n.fi")


def pages() -> dict[str, str]:
    """The text of each page by its file name."""
    root = get_command(application(None))
    names = sorted(root.commands)
    made = {"mh": page(root, "mh", [f"mh-{name}" for name in names])}
    for name in names:
        made[f"mh-{name}"] = page(root.commands[name], f"mh {name}", ["mh"])
    made.update((kind, compiler_page(kind)) for kind in WORDS)
    return {f"{name}.1": text for name, text in made.items()}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/make_man.py FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)
