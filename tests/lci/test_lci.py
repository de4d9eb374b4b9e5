# SPDX-License-Identifier: BSD-3-Clause
"""LCI from outside: the guide's program, the C interface, the graph programs, several processes."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "lib"
HERE = Path(__file__).parent
GRAPH = ROOT / "examples" / "graph"
LIMIT_S = 60

pytestmark = pytest.mark.skipif(
    not Path("/usr/include/rdma/fabric.h").exists(), reason="libfabric is not installed"
)


def compiled(source: Path, target: Path) -> Path:
    compiler = ["gcc", "-std=c11"] if source.suffix == ".c" else ["g++", "-std=c++20"]
    command = [*compiler, "-O2", "-Wall", "-Wextra", "-Werror", str(source)]
    command += [f"-I{ROOT / 'include'}", f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}"]
    command += ["-lmanyhands-lci", "-lmanyhands-ult", "-o", str(target)]
    subprocess.run(command, check=True)
    return target


def outputs(ranks: int, folder: Path, command: Sequence[str | Path]) -> list[str]:
    """What each rank prints; all must succeed."""
    root = folder / "root"
    running = []
    for rank in range(ranks):
        environment = {
            **os.environ,
            "MH_LCI_RANK": str(rank),
            "MH_LCI_SIZE": str(ranks),
            "MH_LCI_ROOT": str(root),
        }
        running.append(
            subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        printed = [process.communicate(timeout=LIMIT_S)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * ranks, printed
    return printed


def test_the_program_of_the_guide_prints_what_the_guide_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "lci.md").read_text()
    programs = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 1
    (tmp_path / "balls.cpp").write_text(programs[0])
    program = compiled(tmp_path / "balls.cpp", tmp_path / "balls")
    promised = re.search(r"It prints `(.*?)`", page)
    assert promised is not None
    assert outputs(2, tmp_path, [program]) == [promised.group(1) + "\n", ""]


def test_every_call_of_the_c_interface(tmp_path: Path) -> None:
    program = compiled(HERE / "c_calls.c", tmp_path / "c_calls")
    assert outputs(2, tmp_path, [program]) == ["all good\n"] * 2


@pytest.mark.parametrize(
    "words",
    [[], ["bfs", "--scale", "x"], ["bfs", "--scale", "0"], ["bfs", "--degree"], ["bfs", "--no"]],
)
def test_wrong_arguments_of_the_graph_programs_show_the_usage(
    graph: Path, words: list[str]
) -> None:
    run = subprocess.run([graph, *words], capture_output=True, text=True, timeout=LIMIT_S)
    assert run.returncode == 2
    assert run.stderr.startswith("usage: graph")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"MH_LCI_RANK": "x", "MH_LCI_SIZE": "2"}, "MH_LCI_RANK=x is not a number"),
        ({"MH_LCI_RANK": "2", "MH_LCI_SIZE": "2"}, "process 2 of 2: start all with a launcher"),
        ({"MH_LCI_RANK": "0"}, "set MH_LCI_RANK"),
        ({"MH_LCI_RANK": "0", "MH_LCI_SIZE": "2", "MH_LCI_ROOT": "here"}, "MH_LCI_ROOT=here is"),
    ],
)
def test_a_process_that_cannot_be_placed_is_told_why(
    tmp_path: Path, graph: Path, variables: dict[str, str], words: str
) -> None:
    run = subprocess.run(
        [graph, "bfs", "--scale", "8"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert run.returncode != 0
    assert words in run.stderr


def test_one_process_needs_no_launcher(tmp_path: Path, graph: Path) -> None:
    unset = {name for name in os.environ if re.match(r"MH_LCI_|PMI_|OMPI_|SLURM_", name)}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    run = subprocess.run(
        [graph, "bfs", "--scale", "8"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert " right, " in run.stdout, run.stdout + run.stderr


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(GRAPH / "main.cpp", tmp_path_factory.mktemp("graph") / "graph")


@pytest.mark.parametrize("program", ["bfs", "cc", "sssp", "pagerank"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_graph_programs_are_right(tmp_path: Path, graph: Path, program: str, ranks: int) -> None:
    kind = ["--kronecker"] if ranks == 3 else []
    printed = outputs(ranks, tmp_path, [graph, program, "--scale", "10", *kind])
    assert " right, " in printed[0]


# A square with a diagonal, a line of three beside it, and a vertex alone.
EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (4, 5), (5, 6)]
VERTICES = 8


def edge_list(path: Path) -> None:
    path.write_text("# u v\n" + "".join(f"{u} {v}\n" for u, v in EDGES) + "7 7\n")


def matrix_market(path: Path) -> None:
    head = "%%MatrixMarket matrix coordinate pattern symmetric\n% comment\n"
    sizes = f"{VERTICES} {VERTICES} {len(EDGES)}\n"
    path.write_text(head + sizes + "".join(f"{u + 1} {v + 1}\n" for u, v in EDGES))


def serialized(path: Path) -> None:
    rows = [
        sorted([v for u, v in EDGES if u == w] + [u for u, v in EDGES if v == w])
        for w in range(VERTICES)
    ]
    offsets = [sum(len(row) for row in rows[:i]) for i in range(VERTICES + 1)]
    flat = [v for row in rows for v in row]
    path.write_bytes(
        struct.pack("<?qq", False, offsets[-1], VERTICES)
        + struct.pack(f"<{len(offsets)}q", *offsets)
        + struct.pack(f"<{len(flat)}i", *flat)
    )


@pytest.mark.parametrize(
    ("name", "write"), [("g.el", edge_list), ("g.mtx", matrix_market), ("g.sg", serialized)]
)
def test_graph_files_are_read(tmp_path: Path, graph: Path, name: str, write: object) -> None:
    assert callable(write)
    write(tmp_path / name)
    printed = outputs(2, tmp_path, [graph, "cc", "--file", tmp_path / name])
    assert f"{VERTICES} vertices, {2 * len(EDGES)} edges: right" in printed[0]
