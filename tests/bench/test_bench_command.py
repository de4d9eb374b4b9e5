# SPDX-License-Identifier: BSD-3-Clause
"""Tests `mh bench`: cases, tables of at most 100 columns, and real launches under every MPI found.

The launches are as short as possible. They prove that programs compile, check their bytes and print
the lines that the reader expects. The tests measure no time: a benchmark is never a test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from harness.launch import QUICK
from manyhands import installation
from manyhands.commands import bench
from manyhands_bench import host, launch, mpis, nodes, programs
from manyhands_bench.case import LENT, NO_HEAP, OMP, OTHERS
from manyhands_bench.cases import CASES, HELPED, MAPPED, PLAIN, Arm, Case, select
from typer.testing import CliRunner

CHECKOUT = Path(__file__).resolve().parents[2]
BUILDS = mpis.find_builds(CHECKOUT)
# How a launch without Manyhands works depends on the launcher alone, so a single MPI build of each
# family (MPICH, Open MPI) is enough for the tests of such launches.
OF_EACH_FAMILY = list({b.family: b for b in reversed(BUILDS.values())}.values())
HERE = host.describe()
LIBRARY = installation.library()
NO_NODES = nodes.obstacle()
RUNNER = CliRunner()
APP = typer.Typer()
APP.command()(bench.bench)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--rounds", "0"], "greater than or equal to 1"),
        (["--rest", "-1"], "greater than or equal to 0"),
        (["--json", "/nowhere/at/all.json"], "there is no directory"),
        (["--plot", "/nowhere/at/all.png"], "there is no directory"),
        (["--json", "/"], "is a directory"),
    ],
)
def test_what_would_lose_the_results_is_refused_before_the_first_launch(
    words: list[str], complaint: str
) -> None:
    result = RUNNER.invoke(APP, ["--short", *words])
    assert result.exit_code == 2
    assert complaint in " ".join(result.output.replace("\u2502", " ").split())


def made_up_report() -> dict:
    """Returns a report of five rounds under five MPIs: 2 times as fast at 8 MB, noisy at 64 KB."""
    config = {"ranks": 2, "hosts": ["h", "h"], "cpus": ["0", "1"]}
    sizes = {8: (400.0, 410.0), 65536: (6e3, 6e3), 512 << 10: (3e4, 2e4), 8 << 20: (7e5, 3.5e5)}

    def lines(arm: int, noise: float) -> list[dict]:
        found = []
        for size, times in sizes.items():
            ns = times[arm] * (noise if size == 65536 else 1)
            found.append({"kind": "pingpong", "bytes": size, "mean_ns": [ns]})
            if size >= 65536:
                found.append({"kind": "memcpy", "bytes": size, "ranks": 1, "gb_per_s": [14.0]})
                found.append({"kind": "memcpy", "bytes": size, "ranks": 2, "gb_per_s": [23.0]})
        return found

    rounds = [{"plain": lines(0, 1), "helped": lines(1, 1 + i / 10)} for i in range(5)]
    records = [
        {
            "case": "pingpong",
            "mpi": name,
            "arms": ["plain", "helped"],
            "config": config,
            "rounds": rounds,
            "summaries": {},
            "errors": [],
        }
        for name in ("mpich4", "openmpi4", "mpich5", "openmpi5", "abi")
    ]
    described = host.describe()
    return {
        "machine": {"model": "M", "cores": described.cores, "numa_nodes": 1, "huge_pages": "x"},
        "date": "today",
        "control": False,
        "records": records,
    }


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(made_up_report()))
    return file


def test_stored_results_are_shown_within_100_columns(stored: Path):
    shown = RUNNER.invoke(APP, ["--from", str(stored), "--compare"])
    assert shown.exit_code == 0, shown.output
    table_lines = [line for line in shown.output.splitlines() if "  " in line]
    assert max(len(line.rstrip()) for line in table_lines) <= 100
    assert "…" not in shown.output


def test_bars_of_the_heap_say_met_missed_and_which_of_it_is_chance(tmp_path: Path):
    report = made_up_report()

    def exchanges(heap_ns: list[float]) -> list[dict]:
        return [
            {
                arm: [
                    {"kind": "pingpong", "bytes": size, "mean_ns": [ns]} for size in (8192, 65536)
                ]
                for arm, ns in (("plain", 1000.0), ("helped", 1000.0), ("heap", heap))
            }
            for heap in heap_ns
        ]

    def record(mpi: str, heap_ns: list[float]) -> dict:
        return report["records"][0] | {
            "case": "busy-exchange",
            "mpi": mpi,
            "arms": ["plain", "helped", "heap"],
            "rounds": exchanges(heap_ns),
        }

    report["records"] = [
        record("mpich4", [250.0] * 9),
        record("openmpi4", [500.0] * 7 + [400.0] * 2),
        record("mpich5", [500.0] * 8 + [400.0]),
    ]
    report["records"].append(planes_record(report["records"][0]))
    file = tmp_path / "busy.json"
    file.write_text(json.dumps(report))
    shown = RUNNER.invoke(APP, ["--from", str(file), "--compare"])
    assert shown.exit_code == 0, shown.output
    (row,) = [line for line in shown.output.splitlines() if "busy-exchange 64 KB" in line]
    assert row.split()[3:] == "2.50 4.00 (9/9) 2.00 (2/9) ~ 2.00 (1/9) -".split()
    assert "busy-exchange 8 KB" not in shown.output  # 8 KB has no bar
    planes = [line for line in shown.output.splitlines() if "planes-heap" in line]
    assert [line.split()[4:] for line in planes] == [
        ["Z=8", "1.00", "1.10", "(9/9)"],
        ["Z=64", "1.20", "1.10", "(0/9)", "-"],
    ]


def planes_record(of: dict) -> dict:
    """Returns a record of nine rounds, 1.1 times as fast with the heap."""

    def line(depth: int, ns: float) -> dict:
        name = f"plane 1 MB, Z = {depth}"
        times = dict.fromkeys(("median_ns", "loop_ns", "loops_ns", "memcpys_ns"), [ns])
        return {"kind": "noncontiguous", "way": "pack", "type": name, "bytes": 1 << 20} | times

    arms = {"helped": 1100.0, "heap": 1000.0}
    one = {arm: [line(depth, ns) for depth in (8, 64)] for arm, ns in arms.items()}
    return of | {"case": "planes-heap", "mpi": "mpich4", "arms": list(arms), "rounds": [one] * 9}


def test_bars_say_met_and_not_met(stored: Path):
    shown = RUNNER.invoke(APP, ["--from", str(stored), "--compare"]).output
    row = next(line for line in shown.splitlines() if line.strip().startswith("8 MB: at least"))
    assert row.count("2.00 met") == 5
    row = next(line for line in shown.splitlines() if line.strip().startswith("64-256 KB"))
    assert row.count("not met") == 5
    row = next(line for line in shown.splitlines() if line.strip().startswith("latency"))
    assert row.count("not measured") == 5


def test_bars_without_cma_have_rows_of_their_own(tmp_path: Path):
    report = made_up_report()
    for record in report["records"]:
        record["case"] = "pingpong-cells"
    file = tmp_path / "cells.json"
    file.write_text(json.dumps(report))
    shown = RUNNER.invoke(APP, ["--from", str(file), "--compare"]).output
    row = next(line for line in shown.splitlines() if line.strip().startswith("8 MB, no CMA"))
    assert row.count("2.00 met") == 5
    assert "8 MB: at least" not in shown


def planes_report() -> dict:
    """Returns a report: planes 4 times as fast under both MPIs, and a bundle without a gain."""
    report = made_up_report()
    ways = {"planes": ("pack", ["plain", "helped"]), "bundle": ("bundle", ["separate", "bundle"])}

    def line(way: str, ns: float, z: int = 1) -> dict:
        beside = {name: [888.8e3] for name in ("loop_ns", "loops_ns", "memcpys_ns")}
        what = {"kind": "noncontiguous", "way": way, "type": f"plane 32 MB, Z = {z}"}
        return {**what, "bytes": 32 << 20, "median_ns": [ns], **beside}

    wide = line("pack-unpack", 888.88e3, 4096)  # makes the longest line of the table

    report["records"] = [
        {
            "case": case,
            "mpi": mpi,
            "arms": arms,
            "config": {"ranks": 2, "hosts": ["h", "h"], "cpus": ["0", "1"]},
            "rounds": [
                {
                    arms[0]: [line(way, 4e6), wide],
                    arms[1]: [line(way, 1e6 if way == "pack" else 4e6), wide],
                },
                {arms[0]: [wide], arms[1]: [line("pack-unpack", 60e3, 4096)]},
            ],
            "summaries": {},
            "errors": [],
        }
        for mpi in ("mpich4", "openmpi4")
        for case, (way, arms) in ways.items()
    ]
    return report


def test_bars_of_planes_differ_by_mpi(tmp_path: Path):
    file = tmp_path / "report.json"
    file.write_text(json.dumps(planes_report()))
    shown = RUNNER.invoke(APP, ["--from", str(file), "--compare"])
    assert shown.exit_code == 0, shown.output
    rows = [line for line in shown.output.splitlines() if line.strip().startswith("32 MB, ")]
    pack = [line for line in rows if "pack, Z = 1" in line]
    assert "not met" in next(line for line in pack if "mpich4" in line)  # the bar is 10
    assert "not met" not in next(line for line in pack if "openmpi4" in line)  # the bar is 3
    assert all("not met" in line for line in rows if "bundle over separate" in line)
    table_lines = [line for line in shown.output.splitlines() if "  " in line]
    assert max(len(line.rstrip()) for line in table_lines) <= 100
    assert "…" not in shown.output


def test_a_wide_range_is_called_noise(stored: Path):
    shown = RUNNER.invoke(APP, ["--from", str(stored)]).output
    assert "noisy: 5 of 20 ratios" in shown


def test_a_missing_library_is_an_error_that_says_what_to_do(tmp_path: Path):
    shown = RUNNER.invoke(APP, ["--library", str(tmp_path / "none.so")])
    assert shown.exit_code == 2
    assert "mh preload" in shown.stderr


def test_unknown_cases_and_builds_are_named():
    assert "no case nonsense" in RUNNER.invoke(APP, ["--control", "--only", "nonsense"]).stderr
    assert "mpich17" in RUNNER.invoke(APP, ["--control", "--mpi", "mpich17"]).stderr


def test_the_short_set_is_the_one_the_bars_need():
    assert [case.name for case in select([], short=True)] == ["latency", "pingpong", "collectives"]


def tiny(program: str, *arguments: str, ranks: int = 2) -> Case:
    return Case("tiny", "tiny", program, lambda m: ranks, lambda m: arguments)


TINY = {
    "latency": (tiny("latency", "--batches", "3", "--calls", "20"), "latency"),
    "loaded": (
        tiny("latency", "--batches", "2", "--calls", "10", "--load", "64K", ranks=4),
        "latency",
    ),
    "pingpong": (
        tiny("pingpong", "--sizes", "8,128K", "--batches", "3", "--batch-ms", "0.1", "--touch"),
        "pingpong",
    ),
    "polling": (
        tiny("pingpong", "--sizes", "8,128K", "--mode", "test", "--batches", "3", "--no-limit"),
        "pingpong",
    ),
    "echo": (
        tiny("pingpong", "--sizes", "8,128K", "--echo", "--batches", "3", "--no-limit"),
        "pingpong",
    ),
    "fresh": (
        tiny("pingpong", "--sizes", "128K", "--fill", "--touch", "--batches", "3"),
        "pingpong",
    ),
    "exchange": (
        tiny("pingpong", "--sizes", "1M", "--mode", "exchange", "--cold", "4M", "--no-limit"),
        "pingpong",
    ),
    "limit": (
        tiny("pingpong", "--sizes", "64K,1M", "--mode", "mapped", "--fill", "--no-limit"),
        "pingpong",
    ),
    "hinted": (
        tiny("pingpong", "--sizes", "1M", "--access", "lo-to-hi", "--batches", "3", ranks=3),
        "pingpong",
    ),
    "collectives": (
        tiny("collectives", "--sizes", "8,1K", "--batches", "3", "--batch-ms", "0.1"),
        "collective",
    ),
    "onesided": (
        tiny("onesided", "--sizes", "8,128K", "--batches", "3", "--batch-ms", "0.1"),
        "onesided",
    ),
    "threads-windows": (
        tiny("threads", "--window", "5", "--threads", "1,3", "--batches", "2", "--batch-ms", "1"),
        "threads",
    ),
    "threads": (
        tiny("threads", "--threads", "1,3", "--batches", "2", "--batch-ms", "1"),
        "threads",
    ),
    "planes": (
        tiny(
            "noncontiguous",
            "--planes",
            "128K",
            "--z",
            "1,64",
            "--batches",
            "2",
            "--batch-ms",
            "0.1",
        ),
        "noncontiguous",
    ),
    "bundle": (
        tiny(
            "noncontiguous",
            "--boxes",
            "8",
            "--ways",
            "bundle,separate",
            "--batches",
            "2",
            "--batch-ms",
            "0.1",
        ),
        "noncontiguous",
    ),
    "waiters": (tiny("waiters", "--bytes", "1M", "--rounds", "3", ranks=3), "waiters"),
    "waiters-self": (tiny("waiters", "--bytes", "1M", "--rounds", "3", "--self"), "waiters"),
    "streams": (tiny("streams", "--batches", "2", "--batch-ms", "0.2"), "stream"),
}


# Several cases start the same program in different modes. A mode has the same effect under every
# MPI, so only the MPI builds whose launchers are quick run all cases. The other builds run each
# program once.
ONE_OF_EACH_PROGRAM = list({case.program: name for name, (case, _) in TINY.items()}.values())
HELPED_RUNS = [
    pytest.param(build, name, id=f"{build.name}-{name}")
    for build in BUILDS.values()
    for name in (TINY if build.name in QUICK else ONE_OF_EACH_PROGRAM)
]


def has_what_is_read(result: launch.Launch, kind: str) -> None:
    found = [line for line in result.lines if line["kind"] == kind]
    assert found
    for line in found:
        for key in ("mean_ns", "median_ns", "gb_per_s", "touch_ns", "loop_ns", "memcpys_ns"):
            assert all(value > 0 for value in line.get(key, []))


def binary_of(build: mpis.MpiBuild, case: Case) -> Path:
    return programs.compile_program(build, CHECKOUT, case.program)


@pytest.mark.skipif(not BUILDS, reason="no MPI compiler and launcher found")
@pytest.mark.parametrize("name", ONE_OF_EACH_PROGRAM)
@pytest.mark.parametrize("build", OF_EACH_FAMILY, ids=lambda build: build.name)
def test_programs_run_and_print_what_is_read(build: mpis.MpiBuild, name: str):
    case, kind = TINY[name]
    result = launch.run(build, binary_of(build, case), case, PLAIN, HERE, None)
    assert result.config["ranks"] == case.ranks(HERE)
    assert len(result.config["cpus"]) == case.ranks(HERE)
    has_what_is_read(result, kind)


@pytest.mark.skipif(not BUILDS or LIBRARY is None, reason="needs an MPI and the built library")
@pytest.mark.parametrize(("build", "name"), HELPED_RUNS)
def test_helped_programs_run_and_the_library_reports(build: mpis.MpiBuild, name: str):
    case, kind = TINY[name]
    result = launch.run(build, binary_of(build, case), case, NO_HEAP, HERE, LIBRARY)
    has_what_is_read(result, kind)
    assert result.summary is not None
    assert result.summary["not_helping_because"] == ""
    total = result.summary["total"]
    if name == "exchange" and HERE.cores > 1:  # both ends are busy
        assert total["messages_exchanged"] > total["messages_by_rendezvous"]
    elif name == "limit":  # the program sends no messages
        assert total["messages_by_rendezvous"] == 0
    elif kind == "pingpong":
        assert total["messages_by_rendezvous"] > 0


@pytest.mark.skipif(not BUILDS or HERE.cores < 2, reason="needs an MPI and two cores")
@pytest.mark.parametrize("build", BUILDS.values(), ids=list(BUILDS))
def test_ranks_are_pinned_to_a_core_each(build: mpis.MpiBuild):
    case, _ = TINY["latency"]
    result = launch.run(build, binary_of(build, case), case, PLAIN, HERE, None)
    assert not launch.unpinned(result.config), result.config


def nodes_of(pid: int) -> list[str]:
    """Returns the emulated nodes (network namespaces) that process `pid` made."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if line.startswith(f"mh-{pid}-")]


(PLANES_OF_NODES,) = select(["planes-nodes"], short=False)
UNDER = [name for name in BUILDS if name not in PLANES_OF_NODES.not_under]


@pytest.mark.skipif(NO_NODES is not None, reason=f"two nodes: {NO_NODES}")
@pytest.mark.parametrize("build", [BUILDS[name] for name in UNDER], ids=UNDER)
def test_two_nodes_are_two_hosts_and_leave_nothing(build: mpis.MpiBuild):
    few = ("--apart", "--planes", "1M", "--z", "8", "--batches", "2", "--batch-ms", "0.1")
    case = replace(PLANES_OF_NODES, arguments=lambda machine: few)
    for arm in (PLAIN, HELPED) if LIBRARY else (PLAIN,):
        result = launch.run(build, binary_of(build, case), case, arm, HERE, LIBRARY)
        hosts = result.config["hosts"]
        assert len(hosts) == 4
        assert hosts[0] == hosts[1] != hosts[2] == hosts[3]
    assert not nodes_of(os.getpid())
    if LIBRARY and build.family == "hydra":
        assert result.summary is not None
        assert result.summary["total"]["messages_by_rendezvous"] > 0


@pytest.mark.skipif(NO_NODES is not None, reason=f"two nodes: {NO_NODES}")
def test_a_bench_that_is_told_to_end_leaves_no_nodes():
    command = [sys.executable, "-m", "manyhands.main", "bench", "--only", "planes-nodes"]
    bench = subprocess.Popen([*command, "--control", "--rounds", "1"], cwd=CHECKOUT)
    try:
        for _ in range(600):
            if nodes_of(bench.pid) or bench.poll() is not None:
                break
            time.sleep(0.1)
        assert nodes_of(bench.pid), "it made none"
        bench.terminate()
        assert bench.wait(timeout=30) == 128 + signal.SIGTERM
    finally:
        bench.kill()
        bench.wait()
    assert not nodes_of(bench.pid)


@pytest.mark.skipif(NO_NODES is not None, reason=f"two nodes: {NO_NODES}")
def test_a_signal_while_a_node_is_made_leaves_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    real = nodes._ip

    def made_then_ended(*words: str) -> str:
        said = real(*words)
        if words[:2] == ("netns", "add"):
            sys.exit(128 + signal.SIGTERM)
        return said

    monkeypatch.setattr(nodes, "_ip", made_then_ended)
    with pytest.raises(SystemExit), nodes.two_nodes(tmp_path):
        pass
    with pytest.raises(SystemExit):
        nodes.obstacle()
    listed = real("netns", "list")
    assert not nodes_of(os.getpid()) and f"mh-try-{os.getpid()}" not in listed


(BUSY,) = select(["busy-exchange"], short=False)
FEW = ("--mode", "exchange", "--fill", "--sizes", "8,64K", "--batches", "3", "--batch-ms", "0.1")


def exchanges_in_turns(build: mpis.MpiBuild, arms: tuple[Arm, ...]) -> dict[str, launch.Launch]:
    case = replace(BUSY, arguments=lambda machine: (*FEW, "--no-limit"))
    return launch.run_all(build, binary_of(build, case), case, arms, HERE, LIBRARY)


@pytest.mark.skipif(not BUILDS or LIBRARY is None, reason="needs an MPI and the built library")
@pytest.mark.parametrize("build", OF_EACH_FAMILY, ids=lambda build: build.name)
def test_launches_that_take_turns_all_measure(build: mpis.MpiBuild):
    found = exchanges_in_turns(build, BUSY.arms)
    assert list(found) == ["plain", "no heap", "heap", "limit"]
    for result in found.values():
        has_what_is_read(result, "pingpong")
        assert [line["bytes"] for line in result.lines] == [8, 64 << 10]
    assert found["limit"].lines[0]["mode"] == "mapped"
    assert found["plain"].summary is None
    assert found["heap"].summary is not None


@pytest.mark.skipif(not BUILDS, reason="no MPI compiler and launcher found")
@pytest.mark.parametrize("place", range(3))
def test_a_launch_that_fails_ends_those_that_wait_for_their_turn(place: int):
    arms = [PLAIN, Arm("second", helped=False), Arm("third", helped=False)]
    arms[place] = Arm("wrong", helped=False, arguments=("--partner", "9"))
    with pytest.raises(launch.LaunchError, match="--partner must be a rank above 0"):
        exchanges_in_turns(next(iter(BUILDS.values())), tuple(arms))
    assert not list(Path(tempfile.gettempdir()).glob(f"mh-turns-{os.getpid()}-*"))


@pytest.mark.skipif(not BUILDS, reason="no MPI compiler and launcher found")
def test_a_bench_that_is_told_to_end_ends_the_launches_in_turn():
    command = [sys.executable, "-m", "manyhands.main", "bench", "--only", "busy-exchange"]
    bench = subprocess.Popen([*command, "--control", "--rounds", "1"], cwd=CHECKOUT)
    try:
        ranks = wait_for_ranks_of(bench)
        assert ranks, "it started none"
        bench.terminate()
        assert bench.wait(timeout=30) == 128 + signal.SIGTERM
    finally:
        bench.kill()
        bench.wait()
    assert not [pid for pid in ranks if is_pingpong(pid)]


def test_further_signals_do_not_stop_the_clean_up(tmp_path: Path):
    """After a time-out, `timeout` sends SIGTERM to the command and to its group."""
    cleaned = tmp_path / "cleaned"
    text = f"""
import time
from pathlib import Path
from manyhands_unix.endings import catch_endings
catch_endings()
try:
    print("ready", flush=True)
    time.sleep(60)
finally:
    time.sleep(0.5)
    Path({str(cleaned)!r}).touch()
"""
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        while process.poll() is None:
            process.terminate()
            time.sleep(0.02)
    assert process.returncode == 128 + signal.SIGTERM
    assert cleaned.exists()


def is_pingpong(pid: int) -> bool:
    try:
        return b"pingpong" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def wait_for_ranks_of(bench: subprocess.Popen[bytes]) -> list[int]:
    """Waits for 8 processes, two for each of the four arms; the launchers count, too."""
    for _ in range(600):
        found = [pid for pid in descendants(bench.pid) if is_pingpong(pid)]
        if len(found) >= 8 or bench.poll() is not None:
            return found
        time.sleep(0.1)
    return []


def descendants(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(c) for task in tasks for c in (task / "children").read_text().split()]
    except OSError:
        return []
    return [found for child in children for found in (child, *descendants(child))]


@pytest.mark.skipif(not BUILDS, reason="no MPI compiler and launcher found")
def test_a_failing_program_is_an_error_with_its_message():
    build = next(iter(BUILDS.values()))
    case = tiny("pingpong", "--partner", "9")
    with pytest.raises(launch.LaunchError, match="--partner must be a rank above 0"):
        launch.run(build, binary_of(build, case), case, PLAIN, HERE, None)


@pytest.mark.skipif(not BUILDS, reason="no MPI compiler and launcher found")
def test_a_library_that_cannot_be_preloaded_is_an_error(tmp_path: Path):
    build = next(iter(BUILDS.values()))
    case, _ = TINY["latency"]
    broken = tmp_path / "broken.so"
    broken.write_text("not a library")
    with pytest.raises(launch.LaunchError, match="preload"):
        launch.run(build, binary_of(build, case), case, HELPED, HERE, broken)


def test_settings_of_the_caller_do_not_reach_the_plain_arm(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MH_CHUNK", "1")
    monkeypatch.setenv("LD_PRELOAD", "/nowhere.so")
    clean = launch.clean_environment()
    assert "MH_CHUNK" not in clean
    assert "LD_PRELOAD" not in clean


def test_arms_differ_in_settings_only_by_environment_or_arguments():
    for case in select([], short=False):
        is_plain = case.arms[0] in (PLAIN, OMP)
        assert is_plain or case.name in ("bundle", "bundle-depths", "planes-heap")  # all helped
        assert len({arm.name for arm in case.arms}) == len(case.arms)
        assert all(isinstance(arm, Arm) and (arm.helped or arm is MAPPED) for arm in case.arms[1:])


# ---- cases that measure the help of third ranks --------------------------------------------------

THIRD_RANKS = (
    *(case.name for case in CASES if case.name.endswith("helpers")),
    "strategies",
    "strategies-numa",
    "waiters",
    "waiters-late",
    "overhead",
)


@pytest.mark.parametrize("name", THIRD_RANKS)
def test_cases_about_third_ranks_expect_their_help(name: str):
    (case,) = select([name], short=False)
    moved = {arm.name: arm.moved for arm in case.arms if arm.helped}
    assert set(moved.values()) <= {OTHERS, LENT} | ({""} if name == "overhead" else set())
    assert "" not in moved.values() or moved == {"check": "", "check+steal": OTHERS}
    three = case.variants(HERE)[0]
    for arm in case.arms:
        assert case.expects(arm, replace(three, ranks=3), HERE) == arm.moved
        assert case.expects(arm, replace(three, ranks=2), HERE) == ""


@pytest.mark.parametrize("name", ["strategies", "strategies-numa", "overhead"])
def test_third_ranks_may_help_with_the_least_message_that_is_cut(name: str):
    (case,) = select([name], short=False)
    least = "8K" if name == "overhead" else "64K"
    words = case.arguments(HERE)
    assert least in words[words.index("--sizes") + 1].split(",")
    for arm in case.arms:
        if arm.moved:
            assert arm.environment["MH_HELP_THRESHOLD"] == least
            assert arm.environment["MH_MAPPED_HELP_THRESHOLD"] == least


@pytest.mark.parametrize(
    ("summary", "complaint"),
    [
        (None, "wrote no summary"),
        ({"total": {OTHERS: 0, LENT: 7}}, "others_bytes is 0"),
        ({"total": {OTHERS: 1, LENT: 0}}, None),
    ],
)
def test_a_launch_without_the_help_that_it_measures_is_an_error(summary, complaint: str | None):
    launch.check_moved("", summary)
    if complaint is None:
        launch.check_moved(OTHERS, summary)
        return
    with pytest.raises(launch.LaunchError, match=complaint):
        launch.check_moved(OTHERS, summary)


def test_a_launch_of_shared_loops_that_nobody_joined_is_an_error():
    (case,) = select(["loops-static"], short=False)
    plain, shared = case.arms
    launch.check_loops(plain, None)
    launch.check_loops(shared, {"total": {"loops": {"units_by_others": 3}}})
    for summary in (None, {"total": {"loops": {"units_by_others": 0}}}):
        with pytest.raises(launch.LaunchError, match="no helper ran a part of one"):
            launch.check_loops(shared, summary)


NOBODY = {"MH_CORES": "3", "MH_HELP_THRESHOLD": "1G"}


@pytest.mark.skipif(not BUILDS or LIBRARY is None, reason="needs an MPI and the built library")
def test_a_bench_says_that_no_third_rank_helped():
    build = next(iter(BUILDS.values()))
    case = tiny("pingpong", "--sizes", "1M", "--batches", "3", "--no-limit", ranks=3)
    alone = replace(NO_HEAP, environment={**NO_HEAP.environment, **NOBODY}, moved=OTHERS)
    with pytest.raises(launch.LaunchError, match="had none: others_bytes is 0"):
        launch.run(build, binary_of(build, case), case, alone, HERE, LIBRARY)
    result = launch.run(
        build, binary_of(build, case), case, replace(alone, moved=""), HERE, LIBRARY
    )
    has_what_is_read(result, "pingpong")


@pytest.mark.parametrize("text", ["{", "[]", '{"machine": 1}'])
def test_a_file_without_results_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "results.json"
    file.write_text(text)
    shown = RUNNER.invoke(APP, ["--from", str(file)])
    assert shown.exit_code == 2
    assert "has no results" in shown.output
