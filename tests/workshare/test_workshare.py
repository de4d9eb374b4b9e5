# SPDX-License-Identifier: BSD-3-Clause
"""The workshare examples are right, with the same results in every build and division.

Counts and checksums are compared with Python's. The finite element solutions are compared with
the analytical solution, and bit for bit with each other.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from workshare_builds import BUILDS, SOURCE, Programs, compile_all
from workshare_reference import count_triangles, kronecker, triangular_checksum

NAMES = (
    "triangular",
    "triangles",
    "finite_elements",
    "conjugate_gradients",
    "hydrodynamics",
)
FEW = ["--repeat", 3, "--warmup", 1, "--reference", 2]
WAYS = [("plain", 1, 1), ("plain", 2, 1), ("plain", 3, 1), ("openmp", 2, 1), ("openmp", 2, 2)]


# --- the example `triangular` -----------------------------------------------------------------


@pytest.mark.parametrize(("variant", "ranks", "threads"), WAYS)
def test_triangular_gives_the_sum_that_python_finds(
    programs: Programs, variant: str, ranks: int, threads: int
) -> None:
    words = ["--rows", 101, "--chunk", 3, *FEW]
    report = programs.report(f"triangular-{variant}", ranks, *words, threads=threads)
    assert report["checksum"] == triangular_checksum(101, False)
    assert (report["variant"], report["ranks"], report["threads"]) == (variant, ranks, threads)


@pytest.mark.parametrize("variant", ["plain", "openmp"])
def test_balanced_rows_take_the_mean_number_of_steps(any_programs: Programs, variant: str) -> None:
    report = any_programs.report(f"triangular-{variant}", 2, "--rows", 100, "--balanced", *FEW)
    assert report["checksum"] == triangular_checksum(100, True)
    assert report["balanced"] is True


def check_series(series: dict[str, Any], ranks: int, count: int) -> None:
    assert series["repeat"] == count
    assert len(series["repetition_wall_s"]) == len(series["repetition_loop_s"]) == count
    assert len(series["loop_s"]) == ranks
    assert series["wall_s"] == sorted(series["repetition_wall_s"])[count // 2]
    loops, walls = series["repetition_loop_s"], series["repetition_wall_s"]
    for rank in range(ranks):
        assert series["loop_s"][rank] == sorted(loop[rank] for loop in loops)[count // 2]
    for loop, wall in zip(loops, walls, strict=True):
        assert len(loop) == ranks
        assert 0 < max(loop) <= wall + 1e-7
    means = sorted(sum(loop) / ranks for loop in loops)
    assert series["mean_loop_s"] == pytest.approx(means[count // 2])


@pytest.mark.parametrize("name", ["triangular", "triangles"])
def test_times_are_of_every_repetition_and_rank(any_programs: Programs, name: str) -> None:
    words = ["--rows", 400] if name == "triangular" else ["--scale", 7]
    words += ["--repeat", 5, "--reference", 3, "--warmup", 0]
    report = any_programs.report(f"{name}-plain", 2, *words)
    check_series(report["measured"], 2, 5)
    check_series(report["reference"], 2, 3)
    assert report["ideal_s"] == report["reference"]["mean_loop_s"]
    assert report["steady"] is True


def test_there_is_no_ideal_without_a_reference(any_programs: Programs) -> None:
    report = any_programs.report("triangular-plain", 1, "--repeat", 1, "--reference", 0)
    assert "ideal_s" not in report and "reference" not in report
    assert report["rows"] == 2500


def test_rows_can_be_chosen_by_time(any_programs: Programs) -> None:
    rows = [
        any_programs.report("triangular-plain", 2, "--time-us", time, "--repeat", 1)["rows"]
        for time in (20, 20000)
    ]
    assert rows[0] % 2 == rows[1] % 2 == 0
    assert rows[1] > 5 * rows[0]  # the ratio is 32 on a machine of constant speed


# --- the example `triangles` ------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "ranks", "threads"), WAYS)
def test_triangles_of_a_kronecker_graph(
    programs: Programs, variant: str, ranks: int, threads: int
) -> None:
    words = ["--scale", 7, "--degree", 8, "--seed", 3, "--chunk", 5, "--check", *FEW]
    report = programs.report(f"triangles-{variant}", ranks, *words, threads=threads)
    edges = kronecker(7, 8, 3)
    assert report["triangles"] == count_triangles(edges) > 0
    assert report["edges"] == len({tuple(sorted(edge)) for edge in edges if edge[0] != edge[1]})
    assert (report["vertices"], report["checked"]) == (128, True)


def test_both_ways_of_counting_agree_on_a_larger_graph(any_programs: Programs) -> None:
    counts = {
        any_programs.report(f"triangles-{build}", ranks, "--scale", 11, "--check", *FEW)[
            "triangles"
        ]
        for build, ranks in (("plain", 1), ("openmp", 3))
    }
    assert len(counts) == 1


def test_triangles_of_a_file(any_programs: Programs, tmp_path: Path) -> None:
    complete = [(a, b) for a in range(9) for b in range(a)]
    lines = [f"{a} {b}" for a, b in complete] + ["% a comment", "", "  3\t3", "0 8", "8 0"]
    file = tmp_path / "graph.txt"
    file.write_text("# a complete graph\n" + "\n".join(lines) + "\n40 41")
    for ranks in (1, 3):
        words = ["--file", file, "--check", *FEW]
        report = any_programs.report("triangles-openmp", ranks, *words)
        assert report["triangles"] == 9 * 8 * 7 // 6
        assert (report["vertices"], report["edges"]) == (42, len(complete) + 1)


def test_a_graph_without_triangles(any_programs: Programs, tmp_path: Path) -> None:
    file = tmp_path / "star.txt"
    file.write_text("".join(f"0 {i}\n" for i in range(1, 30)) + "5 5\n")
    report = any_programs.report("triangles-plain", 2, "--file", file, "--check", *FEW)
    assert report["triangles"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n1 two\n", "graph.txt:2: expected two vertex numbers from 0 to 134217727"),
        ("0 1\n\n1 2 3\n", "graph.txt:3: expected two vertex numbers"),
        ("-1 2\n", "graph.txt:1: expected two vertex numbers"),
        ("0 134217728\n", "graph.txt:1: expected two vertex numbers"),
        ("# nothing\n", "graph.txt: no edges"),
        (None, "No such file"),
    ],
)
def test_files_that_are_not_understood_are_refused(
    any_programs: Programs, tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "graph.txt"
    if text is not None:
        file.write_text(text)
    done = any_programs.run("triangles-plain", 2, "--file", file)
    assert done.returncode == 2
    assert done.stderr.count("triangles: ") == 1
    assert message in done.stderr


# --- the example `finite_elements` ------------------------------------------------------------

SMALL = ["--nx", 7, "--ny", 6, "--nz", 8, "--assembly-chunk", 5, "--chunk", 9]
SLABS = [
    ("plain", 1, 1, 0, [8]),
    ("plain", 2, 1, 0, [4, 4]),
    ("plain", 2, 1, 50, [2, 6]),
    ("openmp", 3, 1, 50, [2, 2, 4]),
    ("openmp", 2, 2, 500, [1, 7]),
    ("openmp", 3, 2, 500, [1, 1, 6]),
]


@pytest.fixture(scope="module")
def solved() -> dict[str, Any]:
    """Returns a place for the first solution by MPI, the reference for all other solutions."""
    return {}


@pytest.mark.parametrize(("variant", "ranks", "threads", "imbalance", "layers"), SLABS)
def test_solution_is_the_same_bit_for_bit_however_it_is_divided(
    programs: Programs,
    solved: dict[str, Any],
    variant: str,
    ranks: int,
    threads: int,
    imbalance: int,
    layers: list[int],
) -> None:
    words = [*SMALL, "--imbalance", imbalance]
    report = programs.report(f"finite_elements-{variant}", ranks, *words, threads=threads)
    assert [rank["work"] for rank in report["times"]] == layers
    assert report["reached_imbalance"] == pytest.approx(100 * (layers[-1] * ranks / 8 - 1))
    result = {key: report[key] for key in ("hash", "iterations", "residual", "error")}
    assert result == solved.setdefault("result", result)


def test_imbalances_are_solved_in_turn_with_one_result(any_programs: Programs) -> None:
    words = [*SMALL, "--imbalance", "0,50,500", "--repeat", 2]
    runs = any_programs.report("finite_elements-plain", 2, *words)["runs"]
    assert [run["imbalance"] for run in runs] == [0, 50, 500] * 2
    assert [run["times"][1]["work"] for run in runs] == [4, 6, 7] * 2
    assert len({run["hash"] for run in runs}) == 1


def test_error_falls_with_the_square_of_the_element_size(any_programs: Programs) -> None:
    errors = []
    for n in (4, 8, 16):
        words = ["--nx", n, "--ny", n, "--nz", n]
        report = any_programs.report("finite_elements-plain", 2, *words)
        assert report["residual"] <= 1e-8
        errors.append(report["error"])
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.1)


def test_times_of_finite_elements_add_up(any_programs: Programs) -> None:
    report = any_programs.report("finite_elements-plain", 2, *SMALL, "--imbalance", 50)
    loops = 0.0
    for rank in report["times"]:
        assert 0 < rank["multiply_s"] + rank["vector_s"] <= rank["solve_s"]
        assert rank["solve_s"] <= report["solve_s"] + 1e-7
        assert 0 < rank["assembly_s"] <= report["assembly_s"] + 1e-7
        loops += rank["assembly_s"] + rank["multiply_s"] + rank["vector_s"]
    assert report["mean_loops_s"] == pytest.approx(loops / 2)
    assert report["total_s"] == pytest.approx(report["assembly_s"] + report["solve_s"])


def test_iterations_end_where_they_are_told_to(any_programs: Programs) -> None:
    words = [*SMALL, "--iterations", 4]
    report = any_programs.report("finite_elements-plain", 2, *words, "--tolerance", 0)
    assert report["iterations"] == 4
    done = any_programs.run("finite_elements-plain", 2, *words)
    assert done.returncode == 1
    assert "not solved in 4 iterations" in done.stderr and "--iterations" in done.stderr


# --- all examples -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("triangular", ["--rows", "0"], "--rows 0: expected a whole number from 1 to 16777216"),
        ("triangular", ["--rows", "1"], "fewer rows than ranks"),
        ("triangular", ["--chunk", "8x"], "--chunk 8x: expected a whole number"),
        ("triangular", ["--time-us", "nan"], "--time-us nan: expected a number from 1 to"),
        ("triangular", ["--time-us", "9", "--rows", "9"], "exclude each other"),
        ("triangular", ["--frob"], "unknown option --frob"),
        ("triangular", ["--rows"], "value missing after --rows"),
        ("triangular", ["9"], "argument not understood: 9"),
        ("triangular", ["--json", "/no/such/folder/x"], "cannot write /no/such/folder/x: No such"),
        ("triangles", ["--scale", "27"], "--scale 27: expected a whole number from 1 to 26"),
        ("triangles", ["--seed", "-1"], "--seed -1: expected a whole number from 0 to 2^64-1"),
        ("triangles", ["--file", ""], "--file : expected a file name"),
        ("triangles", ["--file", "x", "--scale", "3"], "--file excludes --scale and --degree"),
        (
            "triangles",
            ["--scale", "15", "--degree", "1", "--check"],
            "at most 16384 can be checked",
        ),
        ("finite_elements", ["--nx", "1"], "--nx 1: expected a whole number from 2 to 4096"),
        (
            "finite_elements",
            ["--imbalance", "-5"],
            "--imbalance -5: expected a whole number (or a list with commas) from 0",
        ),
        ("finite_elements", ["--imbalance", "1,"], "--imbalance 1,: expected a whole number (or"),
        ("finite_elements", ["--imbalance", "1,2x"], "--imbalance 1,2x: expected a whole number"),
        (
            "finite_elements",
            ["--imbalance", ",".join(["0"] * 65)],
            "expected at most 64 numbers",
        ),
        ("finite_elements", ["--repeat", "0"], "--repeat 0: expected a whole number from 1 to"),
        ("finite_elements", ["--tolerance", "1"], "--tolerance 1: expected a number from 0 to 0.1"),
        ("hydrodynamics", ["--courant", "1"], "--courant 1: expected a number from 0.001 to 0.5"),
        ("finite_elements", "--nx 4096 --ny 4096 --nz 4096".split(), "more than 2^31-1 nodes"),
    ],
)
def test_wrong_command_lines_are_refused_once_with_the_reason(
    any_programs: Programs, name: str, arguments: list[str], message: str
) -> None:
    done = any_programs.run(f"{name}-plain", 2, *arguments)
    assert done.returncode == 2
    assert done.stderr.count(f"{name}: ") == 1
    assert message in done.stderr


def test_more_ranks_than_layers_are_refused(any_programs: Programs) -> None:
    done = any_programs.run("finite_elements-plain", 3, "--nz", 2)
    assert done.returncode == 2
    assert "3 ranks but only 2 layers of elements: use fewer ranks" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_help_names_every_option(any_programs: Programs, name: str) -> None:
    done = any_programs.run(f"{name}-plain", 2, "--help")
    names = re.findall(r'\{"([\w-]+)", OPTION_', (SOURCE / f"{name}.c").read_text())
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: {name} ")
    assert len(names) >= 8
    assert [option for option in names if f"--{option}" not in done.stdout] == []
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize("name", NAMES)
def test_json_goes_to_a_file_beside_the_table(
    any_programs: Programs, tmp_path: Path, name: str
) -> None:
    size = {"triangular": [], "triangles": ["--scale", 6]}.get(name, SMALL[:6])
    file = tmp_path / "times.json"
    done = any_programs.run(f"{name}-openmp", 2, *size, "--json", file)
    assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text())["program"] == name
    assert done.stdout.startswith(f"{name} (openmp): 2 ranks, 1 threads")
    assert "wall" in done.stdout


# --- the builds of the examples ---------------------------------------------------------------


@pytest.mark.skipif(not BUILDS, reason="no MPI here")
def test_the_shared_build_has_the_directives_and_ordinary_compilers_skip_them(
    tmp_path: Path,
) -> None:
    build = next(iter(BUILDS.values()))
    flags = {"SHAREDCC": str(build.mpicc), "CFLAGS": "-O2 -Wno-unknown-pragmas -Werror"}
    compile_all(build, tmp_path, "shared", **flags)
    report = Programs(build, tmp_path).report("triangular-shared", 2, "--rows", 101, *FEW)
    assert report["variant"] == "shared"
    assert report["checksum"] == triangular_checksum(101, False)


def preprocessed(source: str, *flags: str) -> str:
    command = [str(next(iter(BUILDS.values())).mpicc), "-E", *flags, str(SOURCE / source)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(not BUILDS, reason="no MPI here")
def test_one_macro_chooses_the_directive() -> None:
    clauses = "schedule(dynamic, part->chunk) reduction(+ : sum)"
    shared = preprocessed("triangular.c", "-DWORKSHARE=shared")
    openmp = preprocessed("triangular.c", "-DWORKSHARE=openmp", "-fopenmp")
    steal = preprocessed("triangular.c", "-DWORKSHARE=shared", "-DSTEAL_SCHEDULE=guided,4")
    assert f"#pragma ws for {clauses}\n" in shared
    assert f"#pragma omp parallel for {clauses}\n" in openmp
    assert f"#pragma ws for {clauses} steal_schedule(guided,4)\n" in steal
    assert "#pragma" not in preprocessed("triangular.c", "-DWORKSHARE=plain")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        preprocessed("triangular.c", "-DWORKSHARE=shard")
    assert "say how loops are run: -DWORKSHARE=plain" in failed.value.stderr


@pytest.mark.skipif(not BUILDS, reason="no MPI here")
def test_make_alone_leaves_out_what_cannot_be_built() -> None:
    def wanted(sharedcc: str) -> str:
        command = ["make", "-n", "-C", str(SOURCE), f"SHAREDCC={sharedcc}", "OUT=/nowhere"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "-DWORKSHARE=shared" not in wanted("no-such-compiler")
    assert wanted("true").count("-DWORKSHARE=shared") == len(NAMES)
