# SPDX-License-Identifier: BSD-3-Clause
"""Tests emulated nodes: models, plans, the optimum, results, and that no shipped library has them.

No test emulates a node: an emulation takes a library of its own (MH_EMULATE) and minutes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from manyhands import installation
from manyhands.commands import bench
from manyhands_bench import emulated, emulated_cases, emulated_nodes, emulated_results
from manyhands_bench.emulated_nodes import ACROSS, BLOCKS, CELLS, KERNEL, MAPPED, NEAR, Model
from typer.testing import CliRunner

CHECKOUT = Path(__file__).resolve().parents[2]
EMULATOR = CHECKOUT / "bench" / "emulate" / "emulator.cpp"
MODELS = {name: emulated_nodes.load(CHECKOUT, name) for name in emulated_nodes.names(CHECKOUT)}
STORED = sorted((CHECKOUT / "docs" / "results").glob("emulated-*.json"))
LIBRARY = installation.library()
SHIPPED = sorted(LIBRARY.parent.glob("libmanyhands*.so")) if LIBRARY else []
RUNNER = CliRunner()
APP = typer.Typer()
APP.command()(bench.bench)


@pytest.mark.parametrize("library", SHIPPED, ids=lambda path: path.name)
def test_no_shipped_library_has_an_emulator(library: Path) -> None:
    assert b"MANYHANDS_EMULATION" in EMULATOR.read_bytes()
    found = library.read_bytes().lower()
    assert b"emulat" not in found


def test_emulation_is_off_by_default() -> None:
    text = (CHECKOUT / "CMakeLists.txt").read_text()
    (option,) = (line for line in text.splitlines() if line.startswith("option(MH_EMULATE"))
    assert option.endswith(" OFF)")


@pytest.fixture(params=MODELS, ids=str)
def model(request: pytest.FixtureRequest) -> Model:
    return MODELS[request.param]


def test_models_are_complete_and_their_curves_ascend(model: Model) -> None:
    curves = [one["gb_per_s"] for one in model.data["copy"]] + [model.data["between"]]
    for curve in curves:
        cores = [point[0] for point in curve]
        assert cores == sorted(set(cores)) and cores[0] == 1
    sizes = [one["bytes"] for one in model.data["copy"]]
    assert sizes == sorted(sizes)
    explained = " ".join([*model.data["from"], *model.data["from"].values()])
    for key in ("copy", "between", "blocks", "page_ns", "call_ns", "page_lines", "line_ns"):
        assert key in explained
    assert model.cores % model.data["numa_nodes"] == 0


@pytest.mark.parametrize("how", [MAPPED, KERNEL, BLOCKS, CELLS])
def test_more_ranks_never_have_a_worse_optimum(model: Model, how: str) -> None:
    for where in (NEAR, ACROSS) if model.data["numa_nodes"] > 1 else (NEAR,):
        times = [
            model.optimum_ns(8 << 20, model.places(ranks, where), how)
            for ranks in range(2, model.cores + 1)
        ]
        assert all(b <= a * 1.03 for a, b in zip(times, times[1:], strict=False))
        assert times[0] < model.alone_ns(8 << 20, how)


def test_each_rank_has_a_core_of_its_own(model: Model) -> None:
    for where in (NEAR, ACROSS) if model.data["numa_nodes"] > 1 else (NEAR,):
        cores = model.places(model.cores, where)
        assert sorted(cores) == list(range(model.cores))
        is_far = cores[0] // model.cores_of_node != cores[1] // model.cores_of_node
        assert is_far == (where == ACROSS)


def test_a_curve_is_linear_between_its_points_and_constant_beyond() -> None:
    curve = [(1.0, 10.0), (3.0, 20.0)]
    assert [emulated_nodes.total(curve, cores) for cores in (0.5, 1, 2, 3, 9)] == [
        5,
        10,
        15,
        20,
        20,
    ]


def test_a_plan_names_the_core_and_the_numa_node_of_each_rank(tmp_path: Path) -> None:
    model = MODELS["broadwell-36"]
    plan, shared = emulated_nodes.write_plan(model, model.places(4, ACROSS), 200, tmp_path)
    written = json.loads(plan.read_text())
    assert written["cpus"] == [0, 18, 1, 2]
    assert written["numa"] == [0, 1, 0, 0]
    assert written["nap_ns"] >= emulated_nodes.LOOK_NS * 200
    assert shared.exists()


def test_the_most_helpers_of_a_series_are_measured_at_twice_the_dilation() -> None:
    todo = emulated.steps(emulated_cases.series_of(MODELS["broadwell-36"], ["planes"]))
    last = [step for step in todo if step.series.ranks == 36 and "near" in step.series.label]
    assert len(last) == 4  # two sizes, each at two dilations
    assert last[1].dilation == 2 * last[0].dilation


def _result(ns: float, dilation: float, helpers: int = 2) -> dict[str, Any]:
    return {
        "case": "messages",
        "label": "mapped, near",
        "helpers": helpers,
        "bytes": 1 << 20,
        "dilation": dilation,
        "emulated_ns": [ns],
        "optimum_ns": 100,
        "alone_ns": 400,
    }


def test_numbers_that_depend_on_the_dilation_are_named() -> None:
    same, other = [_result(200, 10), _result(205, 20)], [_result(200, 10, 4), _result(150, 20, 4)]
    found, compared = emulated_results.doubts([*same, *other])
    assert compared == 2
    assert [(doubt.result["helpers"], doubt.change) for doubt in found] == [(4, -0.25)]
    assert [one["dilation"] for one in emulated_results.firsts([*same, *other])] == [10, 10]


def test_unknown_models_and_cases_are_refused() -> None:
    refused = RUNNER.invoke(APP, ["--emulate", "vax-1"])
    assert refused.exit_code == 2
    with pytest.raises(ValueError, match="no emulated case nothing"):
        emulated_cases.series_of(MODELS["xeon-16"], ["nothing"])


@pytest.mark.parametrize("file", STORED, ids=lambda path: path.stem)
def test_stored_emulated_results_are_called_emulated(file: Path) -> None:
    shown = RUNNER.invoke(APP, ["--from", str(file)])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("emulated ")
    assert max(map(len, shown.output.splitlines()[2:-2])) <= 100
