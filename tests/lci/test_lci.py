# SPDX-License-Identifier: BSD-3-Clause
"""Tests LCI from outside: the guide's program, the C interface, the graph programs, and several
processes.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import which

import networkx
import pytest
from lci_programs import GRAPH, ROOT, command_for

HERE = Path(__file__).parent
LIMIT_S = 60

pytestmark = pytest.mark.skipif(
    not Path("/usr/include/rdma/fabric.h").exists(), reason="libfabric is not installed"
)


def compiled(source: Path, target: Path, *options: str) -> Path:
    compiler = "gcc" if source.suffix == ".c" else "g++"
    subprocess.run(command_for(source, target, compiler, *options), check=True)
    return target


def outputs(ranks: int, folder: Path, command: Sequence[str | Path]) -> list[str]:
    """Returns the output of each rank; all ranks must succeed."""
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


def guide() -> tuple[str, str, str, list[str]]:
    """Returns the guide's first program, its function with non-blocking calls, its program with a
    queue, and what the guide says the two programs print.
    """
    page = (ROOT / "docs" / "lci.md").read_text()
    program, function, queue = re.findall(r"```cpp\n(.*?)```", page, re.DOTALL)
    return program, function, queue, re.findall(r"It prints `(.*?)`", page)


def test_the_programs_of_the_guide_print_what_the_guide_says(tmp_path: Path) -> None:
    balls, _, queue, promised = guide()
    printed = []
    for name, text in {"balls": balls, "queue": queue}.items():
        (tmp_path / f"{name}.cpp").write_text(text)
        program = compiled(tmp_path / f"{name}.cpp", tmp_path / name)
        (tmp_path / f"of-{name}").mkdir()
        printed += outputs(2, tmp_path / f"of-{name}", [program])
    assert printed == [f"{promised[0]}\n", "", "", f"{promised[1]}\n"]  # by rank 0, by rank 1


def test_the_nonblocking_calls_of_the_guide_swap_the_numbers(tmp_path: Path) -> None:
    program, function, *_ = guide()
    body = """
    int main() {
      auto job = lci::Job::join();
      auto device = lci::Device::open(*job);
      auto all = lci::Communicator::open(*device);
      double mine = all->rank() + 1, theirs = 0;
      const mh::Status status = swap(*all, 1 - all->rank(), mine, theirs);
      return status.ok() && mine + theirs == 3 && mine != theirs ? 0 : 1;
    }"""
    (tmp_path / "swap.cpp").write_text(program.split("int main()")[0] + function + body)
    outputs(2, tmp_path, [compiled(tmp_path / "swap.cpp", tmp_path / "swap")])


def test_every_call_of_the_c_interface(tmp_path: Path) -> None:
    program = compiled(HERE / "c_calls.c", tmp_path / "c_calls")
    assert outputs(2, tmp_path, [program]) == ["all good\n"] * 2


def test_children_of_one_process_meet_without_a_file(tmp_path: Path) -> None:
    program = compiled(HERE / "c_calls.c", tmp_path / "c_calls")
    unset = {"MH_LCI_ROOT"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    name = f"@manyhands-lci-{os.getuid()}-{os.getpid()}"

    def start(rank: int) -> subprocess.Popen[str]:
        own = {**environment, "MH_LCI_RANK": str(rank), "MH_LCI_SIZE": "2", "TMPDIR": str(tmp_path)}
        return subprocess.Popen([program], env=own, stdout=subprocess.PIPE, text=True)

    running = [start(0)]
    try:
        begun = time.monotonic()
        while name not in Path("/proc/net/unix").read_text():
            assert time.monotonic() < begun + LIMIT_S
            time.sleep(0.01)
        assert not list(Path("/tmp").glob(f"manyhands-lci-*{os.getpid()}*"))
        running.append(start(1))
        printed = [process.communicate(timeout=LIMIT_S)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert printed == ["all good\n"] * 2


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
        ({"MH_LCI_RANK": "x", "MH_LCI_SIZE": "2"}, "MH_LCI_RANK=x is not a whole number"),
        (
            {"MH_LCI_RANK": "2", "MH_LCI_SIZE": "2"},
            "process 2 of 2 is not a valid rank: start all processes with a launcher",
        ),
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


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_million_light_tasks_exchange_messages() -> None:
    """Runs half a million tasks in each of two processes; partners are in different processes."""
    program = ROOT / "build" / "bin" / "mh-lci-ping-pong"
    command = [program, "shm", "500000", "1", "2"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"shm +500000 tasks.*round trips/s", run.stdout), run.stdout


@pytest.mark.parametrize(("workers", "devices"), [(1, 4), (2, 1), (2, 3), (4, 2)])
def test_tasks_on_several_workers_use_several_devices(workers: int, devices: int) -> None:
    """Two processes share the cores. Each device has its own server and messages."""
    program = ROOT / "build" / "bin" / "mh-lci-ping-pong"
    command = [program, "node", "50", "40", str(workers), "64", str(devices)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"50 tasks, {workers} workers, {devices} devices" in run.stdout


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(GRAPH / "main.cpp", tmp_path_factory.mktemp("graph") / "graph")


@pytest.mark.parametrize("program", ["bfs", "cc", "sssp", "pagerank", "graph500"])
@pytest.mark.parametrize(("ranks", "cut"), [(2, "edges"), (3, "edges"), (4, "vertices")])
def test_graph_programs_are_right(
    tmp_path: Path, graph: Path, program: str, ranks: int, cut: str
) -> None:
    kind = ["--kronecker"] if ranks != 2 else []
    printed = outputs(ranks, tmp_path, [graph, program, "--scale", "9", "--cut", cut, *kind])
    assert " right, " in printed[0]
    assert re.search(rf"^host \S+: {ranks} ranks, \d+ bytes", printed[0], re.MULTILINE)


def test_the_rounds_of_a_trial_leave_out_the_checks_of_trees(tmp_path: Path, graph: Path) -> None:
    found = []
    for trials in ("1", "3"):
        folder = tmp_path / trials
        folder.mkdir()
        command = [graph, "graph500", "--scale", "8", "--roots", "3", "--trials", trials]
        printed = outputs(2, folder, command)[0]
        found += re.findall(r"; (\d+) rounds, (\d+) bytes sent$", printed, re.MULTILINE)
    assert len(found) == 2
    assert found[0] == found[1]


def test_each_of_graph500s_checks_finds_its_fault(tmp_path: Path) -> None:
    program = compiled(HERE / "tree_checks.cpp", tmp_path / "tree_checks", f"-I{GRAPH}")
    run = subprocess.run([program], capture_output=True, text=True, timeout=LIMIT_S)
    assert run.stdout == "all found\n"


def random_graph() -> networkx.Graph:
    """Returns a graph: two dense parts, a long path at the first part, an isolated vertex."""
    both = networkx.gnm_random_graph(60, 150, seed=5)
    both.add_edges_from(
        (u + 60, v + 60) for u, v in networkx.gnm_random_graph(40, 70, seed=6).edges
    )
    networkx.add_path(both, [0, *range(100, 119)])
    both.add_node(119)
    return both


def of_networkx(g: networkx.Graph, program: str) -> dict[int, float]:
    if program == "bfs":
        return networkx.single_source_shortest_path_length(g, 0)
    if program == "cc":
        return {v: min(part) for part in networkx.connected_components(g) for v in part}
    # PageRank in networkx treats vertices without edges in another way than our program does, but
    # this graph has no such vertices.
    return networkx.algorithms.link_analysis.pagerank_alg._pagerank_python(
        g, alpha=0.85, max_iter=1000, tol=1e-14
    )


@pytest.mark.parametrize("cut", ["edges", "vertices"])
@pytest.mark.parametrize("program", ["bfs", "cc", "pagerank"])
def test_results_are_those_of_networkx(tmp_path: Path, graph: Path, program: str, cut: str) -> None:
    g = random_graph()
    alone = 119
    if program == "pagerank":
        g.remove_nodes_from([v for v in g if g.degree(v) == 0])
        g = networkx.convert_node_labels_to_integers(g)
    (tmp_path / "g.el").write_text(
        "".join(f"{u} {v}\n" for u, v in g.edges) + (f"{alone} {alone}\n" if alone in g else "")
    )
    command = [graph, program, "--file", tmp_path / "g.el", "--cut", cut, "--rounds", "150"]
    outputs(4, tmp_path, [*command, "--output", tmp_path / "values"])
    ours = {}
    for rank in range(4):
        for line in (tmp_path / f"values.{rank}").read_text().splitlines():
            vertex, value = line.split()
            ours[int(vertex)] = float(value)
    theirs = of_networkx(g, program)
    far = 2.0**32 - 1
    assert ours == pytest.approx({v: theirs.get(v, far) for v in g}, rel=1e-8)


@pytest.mark.parametrize("pattern", ["black-hole", "white-hole", "shuffle"])
def test_data_traffic_arrives(tmp_path: Path, traffic: Path, pattern: str) -> None:
    """Sends messages of 16 KB, which go by rendezvous, and short messages."""
    for numbers in ("2048", "10"):
        folder = tmp_path / numbers
        folder.mkdir()
        printed = outputs(2, folder, [traffic, pattern, "16", numbers])
        assert ": right, " in printed[0]


MPICXX, MPIEXEC = which("mpicxx.mpich"), which("mpiexec.mpich")


@pytest.mark.skipif(MPICXX is None or MPIEXEC is None, reason="no MPICH")
def test_data_traffic_over_mpi_arrives(tmp_path: Path) -> None:
    source = ROOT / "examples" / "traffic" / "traffic_mpi.cpp"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-DMPICH_SKIP_MPICXX"]
    program = tmp_path / "traffic-mpi"
    subprocess.run([str(MPICXX), *flags, source, "-o", program], check=True, timeout=LIMIT_S)
    for pattern in ("black-hole", "white-hole", "shuffle"):
        command = [str(MPIEXEC), "-n", "2", program, pattern, "16", "100"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        assert ": right, " in done.stdout, done.stderr


@pytest.mark.parametrize("words", [[], ["grey-hole"], ["shuffle", "3"], ["shuffle", "4", "0"]])
def test_wrong_arguments_of_data_traffic_show_the_usage(traffic: Path, words: list[str]) -> None:
    run = subprocess.run([traffic, *words], capture_output=True, text=True, timeout=LIMIT_S)
    assert run.returncode == 2
    assert run.stderr.startswith("usage: traffic")


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "examples" / "traffic" / "traffic.cpp"
    return compiled(source, tmp_path_factory.mktemp("traffic") / "traffic")


@pytest.mark.skipif(not Path("/usr/include/openssl/sha.h").exists(), reason="no libssl-dev")
def test_tree_search_over_messages_counts_every_node(tmp_path: Path) -> None:
    make = ["make", "-s", "-C", ROOT / "examples" / "uts", f"OUT={tmp_path}", "CXXFLAGS=-O1"]
    program = tmp_path / "uts-messages"
    subprocess.run([*make, program], check=True)
    for ranks in (1, 3):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        printed = outputs(ranks, folder, [program, "small-binomial"])
        assert printed[0].startswith("nodes 6765 leaves 5931 depth 67\n")  # as in tests/tasks
    wrong = subprocess.run([program, "oak"], capture_output=True, text=True, timeout=LIMIT_S)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("usage: uts-messages")


@pytest.mark.parametrize(("ranks", "workers"), [(1, 1), (1, 3), (2, 1), (2, 2), (3, 4)])
def test_searches_by_receiving_tasks_are_right(tmp_path: Path, ranks: int, workers: int) -> None:
    program = compiled(GRAPH / "receiving_tasks.cpp", tmp_path / "receiving-tasks")
    printed = outputs(ranks, tmp_path, [program, "lci", str(workers), "10", "4"])
    assert re.fullmatch(r"4 searches, \d+ edges/s \(harmonic mean\), right\n", printed[0])
    wrong = subprocess.run([program, "lci"], capture_output=True, text=True, timeout=LIMIT_S)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("usage: receiving-tasks")


@pytest.mark.parametrize(("ranks", "workers"), [(1, 2), (2, 1), (3, 2)])
def test_gradients_by_tasks_find_the_solution(tmp_path: Path, ranks: int, workers: int) -> None:
    source = ROOT / "examples" / "gradients" / "gradients.cpp"
    program = compiled(source, tmp_path / "gradients")
    printed = outputs(ranks, tmp_path, [program, "lci", str(workers), "5", "12", "13", "9"])
    assert re.fullmatch(r"5 jobs a rank, [\d.]+ ms an iteration, right\n", printed[0])
    wrong = subprocess.run([program, "lci"], capture_output=True, text=True, timeout=LIMIT_S)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("usage: gradients")


@pytest.mark.skipif(not Path("/usr/include/openssl/sha.h").exists(), reason="no libssl-dev")
def test_tree_search_by_tasks_counts_every_node(tmp_path: Path) -> None:
    make = ["make", "-s", "-C", ROOT / "examples" / "uts", f"OUT={tmp_path}", "CXXFLAGS=-O1"]
    program = tmp_path / "uts-tasks"
    subprocess.run([*make, program], check=True)
    for ranks, workers in ((1, 1), (1, 3), (2, 1), (2, 2), (3, 4)):
        folder = tmp_path / f"{ranks}-{workers}"
        folder.mkdir()
        printed = outputs(ranks, folder, [program, "lci", str(workers), "small-binomial"])
        assert printed[0].startswith("nodes 6765 leaves 5931 depth 67\n")
    wrong = subprocess.run([program, "lci"], capture_output=True, text=True, timeout=LIMIT_S)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("usage: uts-tasks")


# The edges of the test graph: a square with a diagonal, a separate path of three vertices, and (not
# listed) an isolated vertex.
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
