# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh config`: values, their sources, and refused settings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from manyhands.settings import Setting, refusal

from .conftest import Mh


def values(output: str) -> dict[str, tuple[str, str]]:
    return {row["key"]: (row["value"], row["from"]) for row in json.loads(output)["settings"]}


def test_defaults(mh: Mh) -> None:
    found = values(mh("config", "--json").stdout)
    assert len(found) >= 10
    assert found["MH_ENABLE"] == ("1", "default")
    assert {source for _, source in found.values()} == {"default"}


def test_settings_for_experts_and_tests_are_shown_on_demand_or_when_set(mh: Mh) -> None:
    shown = mh("config").stdout
    assert "MH_CHUNK" not in shown
    assert re.search(
        r"^\d+ more settings for experts and tests: mh config --all$", shown, re.MULTILINE
    )
    assert "MH_CHUNK" in mh("config", MH_CHUNK="64K").stdout
    everything = mh("config", "--all").stdout
    assert "MH_CHUNK" in everything
    assert "MH_FAKE_NODES" in everything
    assert "settings for experts and tests: " not in everything


def test_at_most_fourteen_settings_are_for_users_and_eleven_for_experts(mh: Mh) -> None:
    rows = json.loads(mh("config", "--json").stdout)["settings"]
    assert {row["group"] for row in rows} == {"user", "expert", "test"}
    assert sum(row["group"] == "user" for row in rows) <= 14
    assert sum(row["group"] == "expert" for row in rows) <= 11


def test_environment_goes_before_tune_file_and_tune_file_before_default(
    mh: Mh, tmp_path: Path
) -> None:
    tuned = tmp_path / "tuned.conf"
    tuned.write_text("# measured\nMH_THRESHOLD = 96K\nMH_SATURATE = 7\n")
    result = mh("config", "--json", MH_TUNE_FILE=str(tuned), MH_THRESHOLD="1M")
    found = values(result.stdout)
    assert found["MH_THRESHOLD"] == ("1M", "environment")
    assert found["MH_SATURATE"] == ("7", "tune file")
    assert found["MH_ENABLE"][1] == "default"
    assert result.stderr == ""


def test_a_refused_value_falls_back_to_the_next(mh: Mh, tmp_path: Path) -> None:
    tuned = tmp_path / "tuned.conf"
    tuned.write_text("MH_STRATEGY = mixed\n")
    result = mh("config", "--json", MH_TUNE_FILE=str(tuned), MH_STRATEGY="fast")
    assert values(result.stdout)["MH_STRATEGY"] == ("mixed", "tune file")
    assert re.search(
        r"MH_STRATEGY = 'fast' \(environment\) is not one of .*throughput", result.stderr
    )


def test_an_unknown_key_is_warned_about_with_the_nearest(mh: Mh) -> None:
    result = mh("config", MH_TRESHOLD="1M")
    assert re.search(r"^manyhands: MH_TRESHOLD .* did you mean MH_THRESHOLD\?$", result.stderr)


def test_table_fits_eighty_columns(mh: Mh) -> None:
    result = mh("config", "--all")
    assert result.returncode == 0
    lines = [line for line in result.stdout.splitlines() if not line.startswith("tune file")]
    assert max(map(len, lines)) <= 80
    assert re.search(r"^MH_THRESHOLD +64K bytes +default$", result.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("switch", ["0", "1"], ["2", "yes", ""]),
        ("bytes", ["4096", "64K", "1M", "1GiB"], ["x", "-1", "64 K B", "1", "64K,8M"]),
        ("chunk table", ["64K", "0:16K,1M:128K"], ["0:0", "1M:1K,0:1K", "a:b", ""]),
        ("duration", ["0", "2.5"], ["-1", "nan", "1e9", "soon"]),
        ("a|b", ["a", "b"], ["c", "a|b"]),
        ("names", ["", "main", "a::*, f(*)"], [",", "main,", "f(int, long)"]),
        ("path", ["", "/x"], []),
    ],
)
def test_what_is_accepted(type_: str, good: list[str], bad: list[str]) -> None:
    unit = "bytes" if type_ == "bytes" else ""
    setting = Setting("MH_X", "user", type_, "", unit, "", low=1024 if unit == "bytes" else None)
    assert [refusal(setting, text) for text in good] == [None] * len(good)
    assert all(refusal(setting, text) for text in bad)
