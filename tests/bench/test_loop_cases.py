# SPDX-License-Identifier: BSD-3-Clause
"""Tests the cases of shared loops: the evaluation of their numbers, and runs of their programs.

Numbers are invented. Launches are short, under one MPI, and measure no time.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from statistics import median

import pytest
import typer
from manyhands import installation
from manyhands.commands import bench
from manyhands_bench import examples, host, launch, loop_cases, loops, mpis, programs, tables
from manyhands_bench.case import MARKED, OMP, PLAIN, SHARED, Case, Variant, Way
from typer.testing import CliRunner

CHECKOUT = Path(__file__).resolve().parents[2]
BUILDS = mpis.find_builds(CHECKOUT)
LIBRARY = installation.library()
SIMULATOR = CHECKOUT / "build" / "bin" / "mh-victims"
ROUNDS = 5
MPIS = ("mpich4", "openmpi4", "mpich5", "openmpi5", "abi")


def loop(name: str, ns: float, **more) -> dict:
    return {"kind": "loop", "name": name, "ranks": 2, "mean_ns": [ns] * 3, **more}


def record(case: str, plain: list[dict], shared: list[dict], variant: str = "gcc") -> dict:
    config = {"ranks": 2, "hosts": ["h", "h"], "cpus": ["0", "1"]}
    return {
        "case": case,
        "variant": variant,
        "mpi": "mpich4",
        "arms": ["plain", "shared"],
        "config": config,
        "rounds": [{"plain": plain, "shared": shared}] * ROUNDS,
        "summaries": {},
        "errors": [],
    }


def triangle(shared_ns: float, micros: int = 2000) -> dict:
    name = f"triangle {micros} us"
    ranks = {"rank_ns": {"0": [1e6], "1": [3e6]}}
    return record("loops", [loop(name, 3e6, ideal_ns=[2e6] * 3, **ranks)], [loop(name, shared_ns)])


def step(over: float, plain_ns: float, shared_ns: float) -> dict:
    measures = {"over_mean": over, "over_smallest": 2 * over}
    lines = [[loop("finite elements", ns, **measures)] for ns in (plain_ns, shared_ns)]
    return record("loops-imbalance", *lines, variant=f"{over:.0%}")


def verdict_of(name: str, *records: dict) -> loops.LoopVerdict:
    bar = next(bar for bar in loops.BARS if name in bar.name)
    return loops.judge(bar, list(records), median)


def of_program(over: float, shared_ns: float) -> dict:
    name, plain_ns = f"hydrodynamics +{over:.0%}", 1e6 * (1 + over)
    measures = {"over_mean": over, "over_smallest": 2 * over, "ideal_ns": [1e6] * 3}
    lines = [[loop(name, ns, **measures)] for ns in (plain_ns, shared_ns)]
    return record("loops-hydrodynamics", *lines)


@pytest.mark.parametrize(("shared_ns", "met"), [(1.04e6, True), (1.06e6, False)])
def test_programs_with_static_loops_have_a_bar_of_their_gain(shared_ns: float, met: bool):
    found = verdict_of("static loops", of_program(0.2, shared_ns), of_program(0.0, 2e6))
    assert found.met is met
    assert found.worst.where == "hydrodynamics +20%"


@pytest.mark.parametrize(("shared_ns", "met"), [(1.03e6, True), (1.06e6, False)])
def test_programs_with_static_loops_have_a_bar_of_their_loss(shared_ns: float, met: bool):
    found = verdict_of("the same, balanced", of_program(0.02, shared_ns), of_program(0.2, 9e6))
    assert found.met is met
    assert found.worst.where == "loops-hydrodynamics"


def rounds_of_program(gained: list[float]) -> dict:
    rounds = [of_program(0.2, 1.2e6 - 0.2e6 * part)["rounds"][0] for part in gained]
    return {**of_program(0.2, 1.2e6), "rounds": rounds}


@pytest.mark.parametrize(
    ("reached", "within_noise"), [(0, False), (1, False), (2, True), (4, True)]
)
def test_a_missed_bar_is_within_noise_if_a_sign_test_does_not_tell_it(
    reached: int, within_noise: bool
):
    found = verdict_of("static", rounds_of_program([0.8] * reached + [0.6] * (9 - reached)))
    assert (found.met, found.within_noise) == (False, within_noise)
    text = tables.loop_verdict_text(found)
    assert text.endswith("missed within noise" if within_noise else "not met")


def test_a_sweep_shows_the_ideal_where_it_is_known():
    (known,) = loops.sweep([of_program(0.2, 1.1e6)], median)
    (unknown,) = loops.sweep([step(0.2, 2e6, 1e6)], median)
    assert known.ideal == (1e6,) * ROUNDS
    assert unknown.ideal == ()


def test_an_arm_without_marks_has_the_same_compiler():
    way = Way("gcc", marked=True)
    assert way.of(OMP) == Way("gcc")
    assert way.of(MARKED) == way


def test_triangle_counting_is_measured_by_its_repetitions():
    measured = {"repetition_wall_s": [0.002, 0.003]}
    text = json.dumps({"program": "triangles", "ranks": 2, "triangles": 7, "measured": measured})
    _, line = examples.lines(text)
    assert line["mean_ns"] == pytest.approx([2e6, 3e6])
    assert line["hash"] == "7"


def test_a_gain_is_a_part_of_what_the_mean_of_the_ranks_allows():
    (gain,) = loops.gains(triangle(2.1e6), median)
    assert gain.gained == pytest.approx((0.9,) * ROUNDS)
    assert (gain.variant, gain.loop, gain.ideal_ns) == ("gcc", "triangle 2000 us", 2e6)


@pytest.mark.parametrize(
    ("micros", "shared_ns", "met"), [(2000, 2.04e6, True), (2000, 2.06e6, False)]
)
def test_long_loops_have_a_bar_of_their_own(micros: int, shared_ns: float, met: bool):
    assert verdict_of("2 ms and more", triangle(shared_ns, micros)).met is met
    assert verdict_of("500 us", triangle(shared_ns, micros)).worst is None


def test_short_loops_may_gain_less():
    assert verdict_of("500 us", triangle(2.14e6, 500)).met
    assert not verdict_of("500 us", triangle(2.16e6, 500)).met


def test_an_open_loop_is_judged_by_what_it_costs_shared():
    lines = [loop("exposed start", 300), loop("exposed chunk", 1)]
    shared = [loop("exposed start", 49), loop("exposed chunk", 11)]
    measured = record("loops-empty", lines, shared)
    assert verdict_of("start of an open loop", measured).met
    assert not verdict_of("chunk of it", measured).met


def test_a_sweep_is_flat_if_its_shared_times_are():
    rising = [step(0, 2e8, 2e8), step(0.5, 3e8, 2.08e8)]
    assert verdict_of("flat", *rising).met
    assert not verdict_of("flat", *rising, step(1, 4e8, 2.2e8)).met
    assert verdict_of("flat", rising[0]).worst is None  # a sweep has several steps


def test_a_third_program_counts_by_the_mean():
    calm, hit = [1e6] * 9, [1e6] * 8 + [10e6]
    lines = [[loop("balanced 500 us", 0) | {"mean_ns": times}] for times in (calm, hit)]
    assert not verdict_of("third program", record("loops-disturbed", *lines)).met
    assert verdict_of("more ranks than cores", record("loops-crowded", *lines)).met


def everything() -> dict:
    """Returns a report with every case of loops, under five MPIs."""
    empty = [loop("exposed start", 45), loop("exposed chunk", 5)]
    balanced = [loop("balanced 20000 us", 2e7)]
    records = [
        triangle(2.01e6),
        triangle(2.01e6, 500),
        triangle(2.01e6, 500) | {"case": "loops-ranks"},
        record("loops-balanced", balanced, balanced, "gfortran ws"),
        record("loops-empty", empty, empty),
        record("loops-crowded", balanced, balanced, "8 ranks"),
        step(0, 2e8, 2e8),
        step(1, 4e8, 2e8),
    ]
    described = host.describe()
    return {
        "machine": {"model": "M", "cores": described.cores, "numa_nodes": 1, "huge_pages": "x"},
        "date": "today",
        "control": False,
        "records": [one | {"mpi": mpi} for mpi in MPIS for one in records],
    }


def test_tables_of_loops_fit_and_say_met_or_not(tmp_path: Path):
    stored, written = tmp_path / "in.json", tmp_path / "out.json"
    stored.write_text(json.dumps(everything()))
    app = typer.Typer()
    app.command()(bench.bench)
    words = ["--from", str(stored), "--compare", "--json", str(written)]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 100
    assert "…" not in shown.output
    assert any(line.startswith("equal work: within 1 %: 1.000") and "met" in line for line in lines)
    bars = json.loads(written.read_text())["loop_bars"]
    assert {bar["mpi"] for bar in bars} == set(MPIS)
    # In the stored results each loop, of 2 ms or of 500 us, gains at least as much as its bar (the
    # least gain) demands.
    assert all(bar["met"] for bar in bars), [bar for bar in bars if not bar["met"]]


def test_the_sweep_goes_from_equal_slabs_to_all_that_two_ranks_can_show():
    steps = loop_cases._imbalances(host.describe())
    assert steps[0] == 0
    assert steps[-1] in (100 * (max(2, host.describe().cores) - 1), 500)


def test_the_policy_called_default_is():
    table = json.loads((CHECKOUT / "src/base/settings.json").read_text())["settings"]
    victim = next(row for row in table if row["key"] == "MH_VICTIM")
    assert victim["default"] == loops.DEFAULT_VICTIM
    assert set(victim["type"].split("|")) == set(loop_cases.POLICIES)


def tiny(program: str, *words: str) -> Case:
    return Case("tiny", "tiny", program, lambda m: 2, lambda m: words)


LOOPS = tiny("loops", "--micros", "300", "--repeat", "2")


@pytest.mark.skipif(not BUILDS or LIBRARY is None, reason="needs an MPI and the built library")
@pytest.mark.parametrize("way", loop_cases.WAYS, ids=lambda way: way.name)
def test_loops_run_by_every_way_to_compile_them(way: Way):
    build = next(iter(BUILDS.values()))
    lack = programs.lacking(build, way)
    if lack is not None:
        pytest.skip(lack)
    binary = programs.compile_program(build, CHECKOUT, "loops", way)
    for arm in (PLAIN, SHARED):
        result = launch.run(
            build, binary, LOOPS, arm, host.describe(), LIBRARY, Variant(way.name, way)
        )
        (line,) = result.lines
        assert line["name"] == "triangle 300 us"
        assert all(ns > 0 for ns in line["mean_ns"])
        assert set(line["rank_ns"]) == {"0", "1"}
    assert result.summary is not None


@pytest.mark.skipif(not BUILDS or LIBRARY is None, reason="needs an MPI and the built library")
def test_the_sweep_has_the_same_result_in_every_arm():
    build = next(iter(BUILDS.values()))
    size = ("--nx", "6", "--ny", "6", "--nz", "8", "--imbalance", "0,100", "--repeat", "2")
    case = tiny("finite_elements", *size, "--tolerance", "0", "--iterations", "3", "--json", "-")
    binary = programs.compile_program(build, CHECKOUT, case.program, loop_cases.GCC_MARKED)
    variant = Variant("100 %", loop_cases.GCC_MARKED)
    (even, plain), (_, shared) = (
        launch.run(build, binary, case, arm, host.describe(), LIBRARY, variant).lines
        for arm in (PLAIN, SHARED)
    )
    assert even["hash"] == plain["hash"] == shared["hash"]
    assert (even["over_mean"], even["over_smallest"]) == (0, 0)
    assert (plain["over_mean"], plain["over_smallest"]) == (0.75, 6)  # 7 layers and 1
    assert len(plain["mean_ns"]) == 2


def simulated(*words: str) -> dict[str, list[float]]:
    done = subprocess.run([SIMULATOR, *words], check=True, capture_output=True, text=True)
    lines = map(json.loads, done.stdout.splitlines())
    return {line["name"]: line["mean_ns"] for line in lines if line["kind"] == "loop"}


@pytest.mark.skipif(not SIMULATOR.exists(), reason="mh-victims is not built")
def test_simulated_lenders_shorten_loops_and_never_below_the_ideal():
    nobody, ideal = simulated(), simulated("--policy", loops.IDEAL)
    found = {policy: simulated("--policy", policy) for policy in loop_cases.POLICIES}
    for policy, times in found.items():
        assert times.keys() == nobody.keys() == ideal.keys()
        for name, each in times.items():
            for alone, best, time in zip(nobody[name], ideal[name], each, strict=True):
                assert best <= time < alone, (policy, name)
    assert simulated("--policy", loops.DEFAULT_VICTIM) == found[loops.DEFAULT_VICTIM]


@pytest.mark.skipif(not SIMULATOR.exists(), reason="mh-victims is not built")
def test_an_unknown_policy_is_a_usage_error():
    done = subprocess.run([SIMULATOR, "--policy", "kindest"], check=False, capture_output=True)
    assert done.returncode == 2
    assert b"most-work" in done.stderr
