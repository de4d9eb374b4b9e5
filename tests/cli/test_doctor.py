# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh doctor`: its probe against a kernel that really refuses, and its report."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from manyhands import machine
from manyhands.commands import doctor
from manyhands.finding import Report

from .conftest import MH, Mh, environment

# A Python program that forbids process_vm_readv by a seccomp filter, as container runtimes do, and
# then executes a command. Its arguments are the error number of the refused call and the command.
REFUSE = """
import ctypes, os, struct, sys
number = 310  # of process_vm_readv on x86-64
code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | int(sys.argv[1])),
        (0x06, 0, 0, 0x7FFF0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filter))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[2], sys.argv[2:])
"""


def findings(output: str) -> dict[str, dict[str, str]]:
    return {item["name"]: item for item in json.loads(output)["findings"]}


def refused(error: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", REFUSE, str(error), *MH, "doctor", *words]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


def test_the_probe_reads_a_sibling_or_says_why_not() -> None:
    assert machine.try_cma(name_ancestor=True) in (0, errno.EPERM, errno.ENOSYS)


def test_the_heap_is_shared_by_default_and_off_when_told(mh: Mh, library: Path) -> None:
    found = findings(mh("doctor", "--json").stdout)["shared heap"]
    assert "are shared" in found["found"] or found["found"].startswith("off: ")
    off = findings(mh("doctor", "--json", MH_HEAP="off").stdout)["shared heap"]
    assert off["found"] == "off because of MH_HEAP=off"
    wrong = findings(mh("doctor", "--json", MH_HEAP="yes").stdout)["shared heap"]
    assert wrong["found"] == "off because of MH_HEAP=yes"
    on = findings(mh("doctor", "--json", MH_HEAP="on").stdout)["shared heap"]
    assert on["found"] == "large allocations are shared"


def test_a_limit_that_keeps_the_heap_off_is_named_with_its_remedy(library: Path) -> None:
    command = ["sh", "-c", 'ulimit -f 1000000; exec "$@"', "sh", *MH, "doctor", "--json"]
    done = subprocess.run(
        command, env=environment(MH_HEAP="on"), capture_output=True, text=True, timeout=60
    )
    found = findings(done.stdout)["shared heap"]
    assert found["found"] == "off: the size of files is limited"
    assert found["advice"] == "set 'ulimit -f unlimited'"


def test_a_slow_kernel_is_told_from_a_fast_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for page, words in (
        (270.0, "slow; messages in the shared heap avoid it"),
        (60.0, "fast enough"),
    ):
        monkeypatch.setattr(machine, "kernel_page_ns", lambda page=page: page)
        report = Report()
        report.memory_path = "cma"
        doctor.examine_pace(report)
        assert re.search(f"{page:.0f} ns .*{words}", report.findings[0].found)


def test_the_time_of_a_page_is_found_where_the_kernel_copies() -> None:
    page = machine.kernel_page_ns()
    assert (page is not None) == (machine.try_cma(name_ancestor=True) == 0)


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_a_seccomp_filter_is_found_and_explained(error: int) -> None:
    result = refused(error, "--json")
    assert result.returncode == 1, result.stderr
    report = json.loads(result.stdout)
    assert report["way"] == "none"
    found = findings(result.stdout)["CMA between ranks"]
    assert found["verdict"] == "limit"
    assert re.search(r"refused: .*seccomp", found["found"])
    assert "--cap-add SYS_PTRACE" in found["advice"]
    assert findings(result.stdout)["seccomp"]["found"] == "a filter is active"


def test_refusal_in_the_table() -> None:
    result = refused(errno.EPERM)
    assert re.search(r"CMA between ranks.*refused", result.stdout)
    assert re.search(r"large messages go through shared cells", " ".join(result.stdout.split()))
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("scope", "cause", "remedy"),
    [
        (1, "Yama scope 1", "ptrace_scope=0"),
        (2, "Yama scope 2", "ptrace_scope=1"),
        (3, "Yama scope 3", "ptrace_scope=1"),
    ],
)
def test_yama_is_named_as_the_cause(
    monkeypatch: pytest.MonkeyPatch, scope: int, cause: str, remedy: str
) -> None:
    monkeypatch.setattr(machine, "yama_scope", lambda: scope)
    monkeypatch.setattr(machine, "seccomp_mode", lambda: 0)
    found_cause, found_remedy = doctor.why_refused(errno.EPERM)
    assert found_cause == cause
    assert remedy in found_remedy


def test_yama_scope_one_is_no_limit_once_the_ancestor_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "try_cma", lambda name_ancestor: 0 if name_ancestor else 1)
    monkeypatch.setattr(machine, "yama_scope", lambda: 1)
    report = doctor.Report()
    doctor.examine_memory(report)
    assert report.memory_path == "cma after naming the ancestor"
    assert all(finding.verdict != doctor.LIMIT for finding in report.findings)


def test_this_machine(mh: Mh, library: Path) -> None:
    result = mh("doctor", "--json")
    found = findings(result.stdout)
    assert found["library"]["found"] == str(library)
    assert {"cores", "NUMA node 0", "cgroup limit", "huge pages", "/dev/shm"} <= found.keys()
    limits = [item["name"] for item in found.values() if item["verdict"] == "limit"]
    assert result.returncode == (1 if limits else 0)


def test_settings_that_switch_helping_off_are_a_limit(mh: Mh, library: Path) -> None:
    result = mh("doctor", "--json", MH_ENABLE="0")
    assert findings(result.stdout)["settings"]["verdict"] == "limit"
    assert result.returncode == 1


def test_table_fits_eighty_columns(mh: Mh) -> None:
    result = mh("doctor")
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("text", ["0", "0-3", "0-3,8", "1,3,5-7"])
def test_cpu_lists(text: str) -> None:
    assert machine.compress(machine.expand(text)) == text


def test_cgroup_version_two(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/self/cgroup": "0::/a/b",
        "/sys/fs/cgroup/a/b/cpu.max": "max 100000",
        "/sys/fs/cgroup/a/cpu.max": "150000 100000",
    }
    monkeypatch.setattr(machine, "read", files.get)
    assert machine.cgroup_cpus() == 1.5
