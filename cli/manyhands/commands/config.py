# SPDX-License-Identifier: BSD-3-Clause
"""`mh config`: the settings, their values, and the origin of each value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from manyhands import installation, say, settings

if TYPE_CHECKING:
    from rich.console import Console


HEADINGS = {
    "user": "For users",
    "expert": "For experts: settings that a benchmark may vary",
    "test": "For tests",
}


def config(
    everything: bool = typer.Option(
        False, "--all", help="Show the settings for experts and tests, too."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print all settings as JSON."),
) -> None:
    """Show the settings, their current values and the origin of each value.

    Settings for experts and tests are shown with --all, or if they have been set. A setting is an
    environment variable, or a line 'MH_KEY = value' of this host's tune file; the environment
    overrides the file.
    """
    values, complaints = settings.current()
    if not values:
        say.fail(installation.what_is_missing())
    if as_json:
        print_json(values, complaints)
    else:
        print_groups(values, everything)
    for complaint in complaints:
        say.note(complaint)


def print_json(values: list[settings.Value], complaints: list[str]) -> None:
    rows = [
        {
            "key": value.setting.key,
            "group": value.setting.group,
            "value": value.text,
            "from": value.source,
            "default": value.setting.default,
            "type": value.setting.type,
            "unit": value.setting.unit,
            "meaning": value.setting.meaning,
        }
        for value in values
    ]
    tune_file = settings.tune_file()
    print(
        json.dumps(
            {
                "settings": rows,
                "tune_file": str(tune_file) if tune_file else None,
                "complaints": complaints,
            },
            indent=2,
        )
    )


def print_groups(values: list[settings.Value], everything: bool) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    width = max(len(value.setting.key) for value in values)
    hidden = 0
    for group, heading in HEADINGS.items():
        rows = [value for value in values if value.setting.group == group]
        shown = [row for row in rows if everything or group == "user" or row.source != "default"]
        hidden += len(rows) - len(shown)
        if shown and group != "user":
            console.print(f"\n{heading}")
        for value in shown:
            print_value(console, value, width)
    if hidden:
        console.print(f"\n{hidden} more settings for experts and tests: mh config --all")
    file = settings.tune_file()
    if file is not None:
        state = "" if file.is_file() else " (does not exist; mh tune writes it)"
        console.print(f"tune file: {file}{state}", soft_wrap=True)


def print_value(console: Console, value: settings.Value, width: int) -> None:
    from rich.markup import escape
    from rich.padding import Padding

    setting = value.setting
    number = not setting.unit or not value.text or ":" in value.text
    text = escape(value.text or "-") if number else f"{value.text} {setting.unit}"
    origin = "[dim]default[/]" if value.source == "default" else f"[green]{value.source}[/]"
    console.print(f"[bold]{setting.key:{width}}[/] {text}  {origin}", soft_wrap=True)
    console.print(Padding(f"[dim]{escape(setting.meaning)}[/]", (0, 0, 0, 4)))


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: **MH_THRESHOLD=128K mh config**")(config)
