# SPDX-License-Identifier: BSD-3-Clause
"""Writes results.md: each figure and table of the five papers, with our number beside theirs.

Run it after a file in results/ changed: python docs/make_results.py. Standard library only. Tests
check that the page is what this script writes.

results/papers/NAME.json has a row for each figure and table of a paper. A row quotes the paper, and
names the places of our numbers. This script reads the numbers from the samples of `mh bench`, from
a table of simulated runs, or from a page of results.
The places of the measurements, with date and machine, are in results/papers/measurements.json.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS / "results"
sys.path.insert(0, str(DOCS.parent / "bench"))

from manyhands_bench import emulated_results, loops, stats  # noqa: E402

Json = dict[str, Any]
PAPERS = ("cab-mpi", "poster", "task-collections", "workshare", "dissertation")
UNITS = {"K": 1 << 10, "M": 1 << 20}
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()

WORK = {
    "same": "the same work on a machine of the same kind",
    "scaled": "the same work with fewer cores, ranks or nodes, smaller data, or another baseline",
    "emulated": "hosts are network namespaces or fake nodes of one machine, or cores are simulated",
    "missing": "no number of ours is stored; the row says why, or with what to measure",
    "picture": "a drawing or a listing: nothing is measured",
}

HEAD = """# The papers' results, and ours

<!-- Written by docs/make_results.py from results/papers/*.json: change those, not this file. -->

Each figure and each table of the five papers has a row. Figures are pictures, so the papers'
numbers come from their text, captions and tables. *No number* means that the text has none. Our
numbers are read from the stored samples or tables, and their date leads to the measurement.
Factors say how many times as fast as plain; above 1 is faster.
"""


# --- our numbers ------------------------------------------------------------------------------


@cache
def load(path: str) -> Any:
    return json.loads((RESULTS / path).read_text(encoding="utf-8"))


@cache
def table_of(path: str) -> list[dict[str, str]]:
    with (RESULTS / path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def only(found: list[Any], wanted: Json) -> Any:
    if len(found) != 1:
        raise SystemExit(f"{len(found)} values for {wanted}")
    return found[0]


def record_of(file: str, wanted: Json) -> Json:
    keys = ("case", "variant", "mpi")
    asked = {key: wanted.get(key, "") for key in keys}
    records = load(file)["records"]
    return only([r for r in records if {k: r.get(k, "") for k in keys} == asked], wanted)


def size_of(text: str) -> int:
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def comparison(file: str, wanted: Json) -> stats.Comparison:
    """The comparison of plain with an arm, for a single subject of a stored run of `mh bench`."""
    record = record_of(file, wanted)
    found = [
        one
        for one in stats.compare(record["rounds"], record["arms"])
        if one.arm == wanted["arm"]
        and one.subject.kind == wanted.get("kind", "pingpong")
        and one.subject.name == wanted.get("name", one.subject.name)
        and one.subject.bytes == size_of(wanted.get("bytes", "0"))
    ]
    result: stats.Comparison = only(found, wanted)
    return result


def gain(file: str, wanted: Json) -> float:
    """The gain of a shared loop as a fraction of the possible gain, the median over the rounds."""
    gains = loops.gains(record_of(file, wanted), stats.median)
    found: loops.Gain = only([one for one in gains if one.loop == wanted["name"]], wanted)
    return stats.median(found.gained)


def from_samples(file: str, wanted: Json) -> str:
    """A number of a stored run of `mh bench`: the ratio to plain, or the number that `is` names."""
    if wanted.get("is") == "gain":
        return f"{100 * gain(file, wanted):.0f} %"
    one = comparison(file, wanted)
    if wanted.get("is") == "added":
        return f"{one.added_ns:+.0f} ns"
    return f"{one.ratio:.2f}" if one.ratio < 10 else f"{one.ratio:.0f}"


def from_rows(file: str, wanted: Json) -> str:
    """A number from a table of simulated runs; several matching rows give the range of their
    values.
    """
    rows = [r for r in table_of(file) if all(r[k] == v for k, v in wanted["where"].items())]
    values = sorted(float(row[wanted["column"]]) * wanted.get("times", 1) for row in rows)
    if not values:
        raise SystemExit(f"no value for {wanted}")
    ends = [f"{value:,.{wanted.get('digits', 0)}f}" for value in (values[0], values[-1])]
    return " to ".join(dict.fromkeys(ends))


def from_emulated(file: str, wanted: Json) -> str:
    """A number of `mh bench --emulate`: the speedup over one core, or the fraction of the
    optimum.
    """
    asked = {"case": wanted["emulated"], "label": wanted["label"], "helpers": wanted["helpers"]}
    asked["bytes"] = size_of(wanted["bytes"])
    results = emulated_results.firsts(load(file)["records"])
    found = only([one for one in results if {key: one[key] for key in asked} == asked], wanted)
    time = emulated_results.time_of(found)
    if wanted.get("is") == "optimum":
        return f"{100 * found['optimum_ns'] / time:.0f} %"
    return f"{found['alone_ns'] / time:.1f}"


def section_of(page: str, anchor: str) -> str:
    """The text of a page, or of its section with this anchor. An empty anchor means the whole
    page.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    if not anchor:
        return text
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        heading = part.partition("\n")[0].lstrip("# ").lower()
        if re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") == anchor:
            return part
    raise SystemExit(f"{page} has no section {anchor}")


def from_page(text: str, wanted: Json) -> str:
    """A cell of a table on a page, or the quoted words, which must be on the page."""
    if "quote" in wanted:
        if wanted["quote"] not in " ".join(text.split()):
            raise SystemExit(f"the page does not say {wanted['quote']!r}")
        return str(wanted["quote"])
    lines = [line for line in text.splitlines() if line.startswith("|")]
    tables = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rows = [cells for cells in tables if cells[0] == wanted["row"]]
    return only(rows[wanted.get("at", 0) :][:1], wanted)[wanted["column"]]


def number(measurement: Json, wanted: Json) -> str:
    if "emulated" in wanted:
        return from_emulated(measurement["emulated"], wanted)
    if "case" in wanted:
        return from_samples(measurement["samples"], wanted)
    if "where" in wanted:
        return from_rows(measurement["rows"], wanted)
    page, _, anchor = measurement["page"].partition("#")
    return from_page(section_of(page, anchor), wanted)


# --- date and machine -------------------------------------------------------------------------


def day(date: str) -> str:
    """A date as "28 Nov 2026"; `date` begins with the form 2026-11-28."""
    year, month, rest = date.split("-", 2)
    return f"{int(rest[:2])} {MONTHS[int(month) - 1]} {year}"


def when(measurement: Json) -> str:
    if "samples" in measurement:
        return day(load(measurement["samples"])["date"])
    for key in ("by", "emulated"):
        if key in measurement:
            return day(load(measurement[key])["date"])
    date: str = measurement["date"]
    if date not in (DOCS / measurement["page"].partition("#")[0]).read_text(encoding="utf-8"):
        raise SystemExit(f"{measurement['page']} does not say {date}")
    if re.match(r"\d{4}-", date):
        return day(date)
    return re.sub(r"\b([A-Z][a-z]{2})[a-z]+", r"\1", date)


def where(measurement: Json) -> str:
    if "samples" in measurement:
        machine = load(measurement["samples"])["machine"]
        model = machine["model"].replace("(R)", "").removesuffix(" Processor")
        return f"{machine['cores']} cores, {model}"
    if "by" in measurement:
        machine = load(measurement["by"])
        return f"simulated on {machine['cores']} cores, {machine['cpu']}"
    if "emulated" in measurement:
        report = load(measurement["emulated"])
        return f"{report['model']['name']}, emulated on {report['machine']['cores']} cores"
    return str(measurement["machine"])


# --- the page ---------------------------------------------------------------------------------


def ours(part: Json, measurements: Json) -> str:
    measurement = measurements[part["of"]]
    numbers = [number(measurement, wanted) for wanted in part["numbers"]]
    text = part["text"].format(*numbers)
    return f"{text} ([{when(measurement)}]({measurement['page']}), {where(measurement)})"


def cell_of_ours(row: Json, measurements: Json) -> str:
    parts = [ours(part, measurements) for part in row.get("ours", [])]
    parts += [row["missing"]] if "missing" in row else []
    parts += [f"`{row['again']}`"] if "again" in row else []
    return "; ".join(parts)


def line(row: Json, measurements: Json) -> str:
    cells = [
        row["figure"],
        row["shows"],
        row.get("paper", ""),
        cell_of_ours(row, measurements),
        row["work"],
        row.get("why", ""),
    ]
    return "| " + " | ".join(cells) + " |\n"


def section(paper: Json, measurements: Json) -> str:
    text = f"\n## {paper['name']}\n\n{paper['citation']}. Its machines: {paper['machines']}.\n\n"
    text += "| | shows | the paper | ours | work | why it differs |\n|---|---|---|---|---|---|\n"
    text += "".join(line(row, measurements) for row in paper["rows"])
    return text + (f"\n{paper['picture']}\n" if "picture" in paper else "")


def totals(papers: list[Json]) -> str:
    """The legend of the column *work*, and the number of rows of each kind for each paper."""
    counts = [Counter(row["work"] for row in paper["rows"]) for paper in papers]
    unknown = set().union(*counts) - set(WORK)
    if unknown:
        raise SystemExit(f"unknown kinds of work: {unknown}")
    names = " | ".join(paper["name"] for paper in papers)
    text = f"\n| work | meaning | {names} |\n|---|---|{'---|' * len(papers)}\n"
    for kind, meaning in WORK.items():
        cells = " | ".join(str(count[kind]) for count in counts)
        text += f"| *{kind}* | {meaning} | {cells} |\n"
    return text


def page() -> str:
    measurements = load("papers/measurements.json")
    papers = [load(f"papers/{name}.json") for name in PAPERS]
    used = {part["of"] for p in papers for row in p["rows"] for part in row.get("ours", [])}
    if used != set(measurements):
        raise SystemExit(f"measurements.json and its use differ: {used ^ set(measurements)}")
    return HEAD + totals(papers) + "".join(section(paper, measurements) for paper in papers)


if __name__ == "__main__":
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
