# SPDX-License-Identifier: BSD-3-Clause
"""`mh config`: every setting, its value now, and where the value comes from."""

from __future__ import annotations

import json

import typer

from manyhands import installation, say, settings


def config(
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Show every setting, its value now, and where it comes from.

    A setting is an environment variable, or a line 'MH_KEY = value' of this host's tune file, which
    the environment overrides.
    """
    values, complaints = settings.current()
    if not values:
        say.fail(installation.what_is_missing())
    if as_json:
        print_json(values, complaints)
    else:
        print_table(values)
    for complaint in complaints:
        say.note(complaint)


def print_json(values: list[settings.Value], complaints: list[str]) -> None:
    rows = [
        {
            "key": value.setting.key,
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


def print_table(values: list[settings.Value]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding

    console = Console(highlight=False)
    width = max(len(value.setting.key) for value in values)
    for value in values:
        setting = value.setting
        number = not setting.unit or not value.text or ":" in value.text
        text = escape(value.text or "-") if number else f"{value.text} {setting.unit}"
        origin = "[dim]default[/]" if value.source == "default" else f"[green]{value.source}[/]"
        console.print(f"[bold]{setting.key:{width}}[/] {text}  {origin}", soft_wrap=True)
        console.print(Padding(f"[dim]{escape(setting.meaning)}[/]", (0, 0, 0, 4)))
    file = settings.tune_file()
    if file is not None:
        state = "" if file.is_file() else " (not there; mh tune writes it)"
        console.print(f"tune file: {file}{state}", soft_wrap=True)


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: **MH_THRESHOLD=128K mh config**")(config)
