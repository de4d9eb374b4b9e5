# SPDX-License-Identifier: BSD-3-Clause
"""Tests the output of src/mpi/generate.py for an entry of calls.json, and the entries that it
refuses.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pympistandard as std
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "src/mpi/generate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module  # dataclasses look up their module there
    spec.loader.exec_module(module)
    std.use_api_version()
    return module


def test_what_is_done_instead_comes_before_the_call(generate: ModuleType) -> None:
    call = generate.call_of("Put_c", {"instead": "rma::put(win, origin_count)"}, {})
    lines = generate.given_body(call).splitlines()
    assert "    if (const auto done = rma::put(win, origin_count)) return *done;" in lines
    assert any(line.strip().startswith("return next.Put_c(") for line in lines)


def test_a_round_is_tried_before_the_arrival_barrier(generate: ModuleType) -> None:
    entry = {"round": "direct::scan(...)", "before": "arrivals::on_lower(comm, count > 0)"}
    call = generate.call_of("Scan", entry, {})
    arguments = "sendbuf, recvbuf, count, datatype, op, comm"
    assert generate.given_body(call).splitlines()[-9:] == [
        f"  const CallResult done = direct::scan({arguments});",
        "  if (done) return direct::counted(*done);",
        "  if (done.is_refused()) [[unlikely]] {",
        "    arrivals::alone(comm);",
        f"    return arrivals::left(comm, next.Scan({arguments}));",
        "  }",
        f"  if (arrivals::passes_tight_loop(comm)) return next.Scan({arguments});",
        f"  return after_barrier_Scan({arguments});",
        "}",
    ]


def test_a_round_without_an_arrival_barrier_is_refused(generate: ModuleType) -> None:
    with pytest.raises(generate.TableError, match="needs an arrival barrier"):
        generate.given_body(generate.call_of("Scan", {"round": "direct::scan(...)"}, {}))


def test_what_is_done_under_a_condition_gets_the_arguments(generate: ModuleType) -> None:
    chapter = {"if": "switches.active", "file": "send"}
    call = generate.call_of("Ssend_c", "send(Mode::synchronous, ...)", chapter)
    arguments = "buf, count, datatype, dest, tag, comm"
    assert generate.given_body(call).splitlines()[-3:] == [
        f"  if (switches.active) return send(Mode::synchronous, {arguments});",
        f"  return next.Ssend_c({arguments});",
        "}",
    ]
    assert "int Ssend_c(" in generate.bodies_of("send", [call])
    assert "int Ssend_c(" not in generate.bodies_of("", [call])


def test_both_forms_of_a_call_have_one_name(generate: ModuleType) -> None:
    functions = generate.by_count([generate.prototype_of(f) for f in ("Wait", "Recv", "Recv_c")])
    assert "return layer.Recv(" in functions
    assert "return layer.Recv_c(" in functions
    assert "Wait" not in functions


def test_a_library_without_the_large_form_gets_the_other(generate: ModuleType) -> None:
    functions = generate.by_count([generate.prototype_of(f) for f in ("Recv", "Recv_c")])
    assert (
        "if (layer.Recv_c == nullptr) return layer.Recv(buf, static_cast<int>(count)," in functions
    )


def test_arrays_of_counts_are_not_narrowed(generate: ModuleType) -> None:
    functions = generate.by_count([generate.prototype_of(f) for f in ("Gatherv", "Gatherv_c")])
    assert "nullptr" not in functions


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"instead": "rma::put(win)", "before": "arrivals::window(win)"}, "stands alone"),
        ({"instead": "rma::put()"}, "names none of its parameters"),
        ({"insted": "rma::put(win)"}, "unknown key insted"),
        ({}, "the entry does nothing"),
        ("rma::put(win)", "does without if"),
        ({"if": "is_ours(win)"}, "the entry does nothing"),
    ],
)
def test_an_entry_that_cannot_be_meant_is_refused(
    generate: ModuleType, entry: dict[str, str] | str, words: str
) -> None:
    with pytest.raises(generate.TableError, match=words):
        generate.call_of("Put", entry, {})


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("Send", "facts(count, datatype, peer(dest, comm))"),
        ("Recv_c", "facts(count, datatype, peer(source, comm))"),
        ("Sendrecv", "facts(sendcount, sendtype, peer(dest, comm))"),
        ("Probe", "no_data(peer(source, comm))"),
        ("Wait", "facts_of(*request)"),
        ("Waitsome", "facts_of(incount, array_of_requests)"),
        ("Testall", "facts_of(count, array_of_requests)"),
        ("Barrier", "no_data(members(comm))"),
        ("Bcast", "facts(count, datatype, members(comm))"),
        ("Put", "facts(origin_count, origin_datatype, AwaitedRanks{})"),
        ("Win_fence", "no_data(everyone())"),
        ("Reduce_scatter", "mean_facts(recvcounts, datatype, comm)"),
        (
            "Alltoallv",
            "sendbuf == MPI_IN_PLACE ? mean_facts(recvcounts, recvtype, comm)"
            " : mean_facts(sendcounts, sendtype, comm)",
        ),
        (
            "Scatter",
            "recvbuf == MPI_IN_PLACE ? no_data(members(comm))"
            " : facts(recvcount, recvtype, members(comm))",
        ),
        (
            "Gatherv",
            "sendbuf == MPI_IN_PLACE ? no_data(members(comm))"
            " : facts(sendcount, sendtype, members(comm))",
        ),
        ("Neighbor_alltoallv", "no_data(members(comm))"),
    ],
)
def test_a_profile_reads_only_arguments_that_are_significant(
    generate: ModuleType, name: str, facts: str
) -> None:
    assert generate.facts_in(generate.prototype_of(name)) == facts


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Send", "waiting("),
        ("Isend", "starting("),
        ("Send_init", "starting("),
        ("Start", "immediate("),
        ("Test", "polling("),
        ("Iprobe", "polling("),
        ("Parrived", "polling("),
        ("Finalize", "begin_finalize();"),
    ],
)
def test_a_profile_knows_calls_that_wait(generate: ModuleType, name: str, kind: str) -> None:
    call = generate.call_of(name, "pass", {})
    assert kind in generate.profiled_call(0, call)
