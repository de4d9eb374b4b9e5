# SPDX-License-Identifier: BSD-3-Clause
"""The findings of `mh doctor`.

A *finding* is a fact with a verdict: ok, note (worth knowing, costs nothing) or limit (keeps ranks
from being helped). A limit comes with advice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

OK, NOTE, LIMIT = "ok", "note", "limit"


@dataclass
class Finding:
    name: str
    found: str
    verdict: str = OK
    advice: str = ""


@dataclass
class Report:
    findings: list[Finding] = field(default_factory=list)
    # How a rank reads another rank's memory: cma, "cma after naming the ancestor" (once their
    # common ancestor is allowed to trace them), or none.
    memory_path: str = "none"

    def add(self, name: str, found: str, verdict: str = OK, advice: str = "") -> None:
        self.findings.append(Finding(name, found, verdict, advice))
