# SPDX-License-Identifier: BSD-3-Clause
"""The settings as the library will read them: the table, the environment, the tune file.

src/base/settings.json is the table; this module reads its rows. Precedence: environment, tune file,
default. A value that the library would refuse is *refused* by this module, too, and the next source
in precedence counts.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from manyhands import installation

NUMBER = re.compile(r"^(\d+)(?:([KMG])(?:i?B)?)?$", re.IGNORECASE)
FACTOR = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


# The preloaded heap (src/heap) reads MH_HEAP itself, from the environment only, because it cannot
# parse the table of settings (see settings.cpp).
HEAP_KEY = "MH_HEAP"


@dataclass(frozen=True)
class Setting:
    key: str
    group: str  # user, expert or test
    type: str
    default: str
    unit: str
    meaning: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Value:
    setting: Setting
    text: str
    source: str  # environment, tune file, default


def number_from(text: str) -> int | None:
    """The value of a whole number with an optional K, M or G (powers of 1024); None if it is not
    one.
    """
    match = NUMBER.match(text.strip())
    return int(match.group(1)) * FACTOR[(match.group(2) or "").upper()] if match else None


def table() -> list[Setting]:
    path = installation.settings_table()
    if path is None:
        return []
    rows = json.loads(path.read_text())["settings"]
    return [
        Setting(
            row["key"],
            row["group"],
            row["type"],
            row["default"],
            row["unit"],
            row["meaning"],
            number_from(row["min"]) if "min" in row else None,
            number_from(row["max"]) if "max" in row else None,
        )
        for row in rows
    ]


def tune_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The path of this host's tune file, whether the file exists or not."""
    if environment.get("MH_TUNE_FILE"):
        return Path(environment["MH_TUNE_FILE"])
    base = environment.get("XDG_CONFIG_HOME") or (
        f"{environment['HOME']}/.config" if environment.get("HOME") else ""
    )
    return Path(base) / "manyhands" / f"{socket.gethostname()}.conf" if base else None


def read_tune_file(path: Path | None) -> dict[str, str]:
    if path is None or not path.is_file():
        return {}
    pairs = {}
    for line in path.read_text(errors="replace").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith("#"):
            pairs[key.strip()] = value.strip()
    return pairs


# --- which values of settings the library accepts ---------------------------------------------


def is_chunk_table(text: str) -> bool:
    if ":" not in text:
        return bool(number_from(text))
    last = -1
    for item in text.split(","):
        start, _, chunk = item.partition(":")
        at_least, size = number_from(start), number_from(chunk)
        if at_least is None or not size or at_least <= last:
            return False
        last = at_least
    return True


def is_duration(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1e6
    except ValueError:
        return False


def are_names(text: str) -> bool:
    """True if no comma splits a name: a split name has unbalanced parentheses."""
    names = [name.strip() for name in text.split(",")] if text else []
    return all(name and name.count("(") == name.count(")") for name in names)


def refusal(setting: Setting, text: str) -> str | None:
    """The accepted values in words if the library would refuse `text`; None if the value is
    good.
    """
    text = text.strip()
    if "|" in setting.type:
        words = setting.type.split("|")
        return None if text in words else f"one of {', '.join(words)}"
    if setting.type == "switch":
        return None if text in ("0", "1") else "0 or 1"
    if setting.type == "chunk table":
        return None if is_chunk_table(text) else "a size such as 64K, or pairs like 0:16K,1M:128K"
    if setting.type == "duration":
        return None if is_duration(text) else "a number from 0 to 1000000"
    if setting.type == "names":
        return None if are_names(text) else "names separated by commas such as main,solver::*"
    if setting.type in ("bytes", "count"):
        return number_refusal(setting, text)
    return None


def number_refusal(setting: Setting, text: str) -> str | None:
    what = "a size such as 65536 or 64K" if setting.type == "bytes" else "a whole number"
    low = setting.low or 0
    value = number_from(text)
    if value is not None and value >= low and (setting.high is None or value <= setting.high):
        return None
    upper = f" to {setting.high}" if setting.high is not None else " upwards"
    return f"{what} from {low}{upper}"


def current(environment: Mapping[str, str] = os.environ) -> tuple[list[Value], list[str]]:
    """Every setting with its value and source, and the complaints about values that users have
    given.
    """
    rows = table()
    file = tune_file(environment)
    tuned = read_tune_file(file)
    complaints = unknown_keys(rows, environment, "the environment")
    complaints += unknown_keys(rows, tuned, str(file))
    values = []
    for setting in rows:
        value = Value(setting, setting.default, "default")
        for source, given in (("tune file", tuned), ("environment", environment)):
            if setting.key not in given:
                continue
            wanted = refusal(setting, given[setting.key])
            if wanted is None:
                value = Value(setting, given[setting.key].strip(), source)
            else:
                complaints.append(
                    f"{setting.key} = '{given[setting.key]}' ({source}) is not {wanted}; ignored"
                )
        values.append(value)
    return values, complaints


def unknown_keys(rows: list[Setting], given: Mapping[str, str], where: str) -> list[str]:
    known = [setting.key for setting in rows]
    complaints = []
    for key in sorted(given):
        if key.startswith("MH_") and key not in (*known, HEAP_KEY):
            nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            complaints.append(f"{key} ({where}) is not a setting{hint}")
    return complaints
