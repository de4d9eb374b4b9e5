# SPDX-License-Identifier: BSD-3-Clause
"""Turns settings.json into the C++ rows that settings.cpp includes.

Run by the build: settings_table.py settings.json settings_table.inc. Standard library only.
"""

import json
import sys
from pathlib import Path

SIZE_SUFFIX = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
GROUPS = ("user", "expert", "test")
MOST = {"user": 14, "expert": 11}  # as many as a person can be expected to know
NO_LIMIT = (1 << 64) - 1


def number(text: str) -> int:
    """'64K' -> 65536."""
    if text and text[-1] in SIZE_SUFFIX:
        return int(text[:-1]) * SIZE_SUFFIX[text[-1]]
    return int(text)


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def row(setting: dict[str, str]) -> str:
    low = number(setting.get("min", "0"))
    high = number(setting["max"]) if "max" in setting else NO_LIMIT
    texts = ", ".join(quoted(setting[name]) for name in ("key", "default", "unit", "type"))
    return f"{{{texts}, &Settings::{setting['field']}, {low}ULL, {high}ULL}},"


def main(source: str, target: str) -> None:
    settings = json.loads(Path(source).read_text(encoding="utf-8"))["settings"]
    keys = [setting["key"] for setting in settings]
    if len(set(keys)) != len(keys) or any(k[:3] != "MH_" for k in keys):
        sys.exit(f"{source}: keys must be distinct and start with MH_")
    if any(setting["group"] not in GROUPS for setting in settings):
        sys.exit(f"{source}: a setting's group is one of {', '.join(GROUPS)}")
    for group, most in MOST.items():
        if sum(setting["group"] == group for setting in settings) > most:
            sys.exit(f"{source}: at most {most} settings of the group {group}")
    lines = [f"// Made from {Path(source).name} by settings_table.py.", *map(row, settings)]
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:3])
