# SPDX-License-Identifier: BSD-3-Clause
"""Writes settings.md from src/base/settings.json, the one table of settings.

Run it after a change of the table: python docs/make_settings.py. Standard library only; tests check
that settings.md is what this script writes.
"""

from __future__ import annotations

import json
from pathlib import Path

DOCS = Path(__file__).resolve().parent
TABLE = DOCS.parent / "src" / "base" / "settings.json"

HEAD = """# Settings

<!-- Written by docs/make_settings.py from src/base/settings.json: change those, not this file. -->

Programs run without any setting. A setting is an environment variable of the ranks:

    MH_THRESHOLD=128K mh run -n 8 ./app

or a line `MH_KEY = value` in the *tune file* of the host, where `mh tune` puts what it has
measured. The environment overrides the tune file, and the tune file overrides the default.
`mh config` shows the values and where they come from, `mh config --all` also those for experts and
tests.

`MH_HEAP` is not in the table: the library of the heap reads it, from the environment alone
([heap.md](heap.md)).
"""

# Each group of the table of settings, and the heading of its section.
GROUPS = {
    "user": """
| setting | default | values | meaning |
|---|---|---|---|
""",
    "expert": """
## For experts

These settings are for benchmarks. The defaults were measured
([decisions](decisions/README.md)), and `mh tune` measures some of them for a machine.

| setting | default | values | meaning |
|---|---|---|---|
""",
    "test": """
## For tests

| setting | default | values | meaning |
|---|---|---|---|
""",
}

TAIL = """
## Values

* **Sizes** are bytes, or have a suffix: `64K`, `1M`, `2G` are powers of 1024; `KB` and `KiB` mean
  the same as `K`.
* **A chunk table** is `from:chunk` pairs in ascending order. `0:16K,1M:128K` cuts messages below
  1 MiB into chunks of 16 KiB, larger ones into chunks of 128 KiB. A single size holds for all
  messages. Chunks are kept between 4 KiB and 512 KiB.
* **Names** are functions as the summary calls them, separated by commas; `*` stands for any
  characters, also for commas in a name
  ([more](openmp.md#leaving-regions-out)).
* **The tune file** is `$XDG_CONFIG_HOME/manyhands/HOST.conf`, or `~/.config/manyhands/HOST.conf`
  where `XDG_CONFIG_HOME` is not set; HOST is the name of the machine. Empty lines and lines that
  begin with `#` are skipped.
* **Mistakes** cost one line, not the run. An unknown `MH_` name is reported with the nearest
  existing name, a wrong value with the values that are accepted. Both are then ignored.

## From within the program

* `MPI_Pcontrol(0)` switches helping off for large messages sent from then on, `MPI_Pcontrol(1)` on
  again.
* The info key `post_comm_access`, given to a communicator with `MPI_Comm_set_info`, does for that
  communicator what `MH_POST_COMM_ACCESS` does for all.
"""


def values(setting: dict[str, str]) -> str:
    """The accepted values, for a cell of the table."""
    kind = setting["type"]
    if kind == "switch":
        return "0 or 1"
    if "|" in kind:
        return ", ".join(f"`{word}`" for word in kind.split("|"))
    unit = setting["unit"]
    text = {"bytes": "a size", "names": "names, with commas"}.get(kind, kind)
    if kind == "count":
        text = "a number" if unit in ("", "level") else f"a number of {unit}"
    if kind == "duration":
        text = f"{unit}"
    low, high = setting.get("min"), setting.get("max")
    if high is not None:
        return f"{low} to {high}"
    return f"{text}, at least {low}" if low is not None and kind != "duration" else text


def row(setting: dict[str, str]) -> str:
    default = f"`{setting['default']}`" if setting["default"] else "none"
    meaning = setting["meaning"].replace("|", "\\|").replace("<", "&lt;")
    return f"| `{setting['key']}` | {default} | {values(setting)} | {meaning} |\n"


def page() -> str:
    settings = json.loads(TABLE.read_text(encoding="utf-8"))["settings"]
    text = HEAD
    for group, heading in GROUPS.items():
        text += heading + "".join(row(setting) for setting in settings if setting["group"] == group)
    return text + TAIL


if __name__ == "__main__":
    (DOCS / "settings.md").write_text(page(), encoding="utf-8")
