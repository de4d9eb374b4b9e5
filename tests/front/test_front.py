# SPDX-License-Identifier: BSD-3-Clause
"""Tests the front with programs of every language and MPI build, and variants that only count.

Each rank of a program makes the calls in CALLS once. The files of the stand-in variants show that
each call was intercepted exactly once. The calls of tools are counted in the same way
(programs/tool.c).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import BUILDS, ROOT, Build, Result, execute, launch

PROGRAMS = Path(__file__).parent / "programs"
STAND_IN = ROOT / "build/tests/front/lib"
FRONT = STAND_IN / "libmanyhands.so"
RANKS = 2
# The intercepted calls that each rank of a ring program (ring.c, ring.f, ring.py) makes.
CALLS = Counter(
    ["MPI_Isend", "MPI_Irecv", "MPI_Waitall", "MPI_Sendrecv", "MPI_Barrier", "MPI_Allreduce"]
)
FORTRAN = {"mpif.h": "ring.f", "use mpi": "ring_use_mpi.f90", "use mpi_f08": "ring_f08.f90"}

pytestmark = pytest.mark.skipif(not FRONT.exists(), reason="build/tests/front is not built")

Compile = Callable[..., Path]


def installed(request: pytest.FixtureRequest) -> Build:
    if not request.param.present:
        pytest.skip(f"{request.param.name} is not installed")
    return request.param


@pytest.fixture(params=BUILDS, ids=lambda build: build.name)
def build(request: pytest.FixtureRequest) -> Build:
    return installed(request)


@pytest.fixture(params=[b for b in BUILDS if b.fortran], ids=lambda build: build.name)
def fortran_build(request: pytest.FixtureRequest) -> Build:
    return installed(request)


@pytest.fixture(params=[b for b in BUILDS if b.python], ids=lambda build: build.name)
def python_build(request: pytest.FixtureRequest) -> Build:
    return installed(request)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Returns a function that compiles a file of programs/ once per compiler and options."""
    folder = tmp_path_factory.mktemp("programs")
    done: dict[tuple[str, ...], Path] = {}

    def compile_program(compiler: str, source: str, *options: str) -> Path:
        key = (compiler, source, *options)
        if key not in done:
            target = folder / f"{len(done)}-{Path(source).stem}"
            command = [compiler, str(PROGRAMS / source), *options, "-o", str(target)]
            subprocess.run(command, check=True, capture_output=True, text=True)
            done[key] = target
        return done[key]

    return compile_program


def counts_in(prefix: Path) -> tuple[set[str], Counter[str], int]:
    """Returns (ABIs, calls over all processes, processes) of the files prefix.<pid>."""
    abis: set[str] = set()
    total: Counter[str] = Counter()
    files = sorted(prefix.parent.glob(f"{prefix.name}.*"))
    for file in files:
        for line in file.read_text().splitlines():
            name, _, count = line.partition(" ")
            if count:
                total[name] += int(count)
            else:
                abis.add(name)
    return abis, total, len(files)


def times(calls: Counter[str], ranks: int) -> Counter[str]:
    return Counter({name: count * ranks for name, count in calls.items()})


def without_start_and_end(calls: Counter[str]) -> Counter[str]:
    kept = {"MPI_Init", "MPI_Init_thread", "MPI_Finalize"}
    return Counter({name: count for name, count in calls.items() if name not in kept})


def check_ring(result: Result, prefix: Path, build: Build) -> None:
    assert result.code == 0, result.err
    assert result.out.split() == ["ring", str(sum(range(RANKS)))]
    assert "manyhands" not in result.err
    abis, calls, processes = counts_in(prefix)
    assert abis == {build.abi}
    assert processes == RANKS
    assert without_start_and_end(calls) == times(CALLS, RANKS)
    assert calls["MPI_Init"] + calls["MPI_Init_thread"] == RANKS
    assert calls["MPI_Finalize"] == RANKS


def test_c_calls_are_caught_once(build: Build, compiled: Compile, tmp_path: Path) -> None:
    program = compiled(build.cc, "ring.c")
    counts = tmp_path / "counts"
    result = launch(build, [str(program)], RANKS, LD_PRELOAD=str(FRONT), MH_TEST_COUNTS=str(counts))
    check_ring(result, counts, build)


@pytest.mark.parametrize("dialect", FORTRAN)
@pytest.mark.parametrize("bind_now", [False, True], ids=["lazy", "bind-now"])
def test_fortran_calls_are_caught_once(
    fortran_build: Build, compiled: Compile, tmp_path: Path, dialect: str, bind_now: bool
) -> None:
    build = fortran_build
    program = compiled(build.fortran, FORTRAN[dialect])
    counts = tmp_path / "counts"
    changes = {"LD_BIND_NOW": "1"} if bind_now else {}
    result = launch(
        build, [str(program)], RANKS, LD_PRELOAD=str(FRONT), MH_TEST_COUNTS=str(counts), **changes
    )
    check_ring(result, counts, build)
    assert "Relink" not in result.err


def python_of(build: Build, folder: Path) -> tuple[str, dict[str, str]]:
    """Returns an interpreter whose mpi4py uses the library of this build, and its environment."""
    if build.library is None:
        return str(build.python), {}
    name = {"mpich": "libmpi.so.12", "openmpi": "libmpi.so.40"}[build.abi]
    (folder / name).symlink_to(build.library)
    return str(build.python), {
        "LD_LIBRARY_PATH": str(folder),
        "MPI4PY_LIBMPI": str(folder / name),
    }


def test_mpi4py_calls_are_caught_once(python_build: Build, tmp_path: Path) -> None:
    build = python_build
    python, changes = python_of(build, tmp_path)
    counts = tmp_path / "counts"
    program = [python, str(PROGRAMS / "ring.py")]
    result = launch(
        build, program, RANKS, LD_PRELOAD=str(FRONT), MH_TEST_COUNTS=str(counts), **changes
    )
    assert result.code == 0, result.err
    assert result.out.split() == ["ring", "1"]
    abis, calls, _ = counts_in(counts)
    # mpi4py calls the large-count form (MPI_X_c) where the library has it; both forms count as
    # MPI_X.
    plain = Counter({name.removesuffix("_c"): count for name, count in calls.items()})
    del plain["MPI_Comm_set_errhandler"]
    assert abis == {build.abi}
    for name, count in times(CALLS, RANKS).items():
        assert plain[name] == count, name


def test_mpi_loaded_late_and_privately(build: Build, compiled: Compile, tmp_path: Path) -> None:
    loader = compiled("cc", "late.c", "-ldl")
    plugin = compiled(build.cc, "ring.c", "-shared", "-fPIC", "-Dmain=run")
    counts = tmp_path / "counts"
    program = [str(loader), str(plugin)]
    result = launch(build, program, RANKS, LD_PRELOAD=str(FRONT), MH_TEST_COUNTS=str(counts))
    check_ring(result, counts, build)


def test_of_two_loaded_libraries_the_callers_is_taken(tmp_path: Path) -> None:
    mpich, openmpi = (next(b for b in BUILDS if b.name == n) for n in ("mpich5", "openmpi5"))
    if not (mpich.present and openmpi.present):
        pytest.skip("needs both wheels")
    for mine, other in ((mpich, openmpi), (openmpi, mpich)):
        library = next((Path(other.cc).parents[1] / "lib").glob("libmpi.so.*"))
        counts = tmp_path / f"counts-{mine.name}"
        load = f"import ctypes; ctypes.CDLL({str(library)!r})"
        use = "from mpi4py import MPI"
        for order in (f"{load}; {use}", f"{use}; {load}"):
            result = launch(
                mine,
                [str(mine.python), "-c", f"{order}; MPI.COMM_WORLD.Barrier()"],
                1,
                LD_PRELOAD=str(FRONT),
                MH_TEST_COUNTS=str(counts),
            )
            assert result.code == 0, result.err
            abis, calls, _ = counts_in(counts)
            assert abis == {mine.abi}
            assert calls["MPI_Barrier"] >= 1


def tool_of(build: Build, compiled: Compile) -> Path:
    return compiled(build.cc, "tool.c", "-shared", "-fPIC")


def test_tool_before_us_sees_every_call_and_so_do_we(
    build: Build, compiled: Compile, tmp_path: Path
) -> None:
    tool = tool_of(build, compiled)
    counts, seen = tmp_path / "counts", tmp_path / "tool"
    result = launch(
        build,
        [str(compiled(build.cc, "ring.c"))],
        RANKS,
        LD_PRELOAD=f"{tool}:{FRONT}",
        MH_TEST_COUNTS=str(counts),
        MH_TEST_TOOL=str(seen),
    )
    assert result.code == 0, result.err
    assert result.out.split() == ["ring", "1"]
    _, by_tool, _ = counts_in(seen)
    assert without_start_and_end(+by_tool) == times(CALLS, RANKS)
    # The tool in front of libmanyhands.so implements MPI_Sendrecv by MPI_Isend, MPI_Recv and
    # MPI_Wait, so libmanyhands.so gets those calls in its place.
    inside = Counter(["MPI_Isend", "MPI_Recv", "MPI_Wait"])
    ours = CALLS - Counter(["MPI_Sendrecv"]) + inside
    assert without_start_and_end(counts_in(counts)[1]) == times(ours, RANKS)


def test_tool_behind_us_sees_every_call_once_and_nothing_recurses(
    build: Build, compiled: Compile, tmp_path: Path
) -> None:
    tool = tool_of(build, compiled)
    counts, seen = tmp_path / "counts", tmp_path / "tool"
    result = launch(
        build,
        [str(compiled(build.cc, "ring.c"))],
        RANKS,
        LD_PRELOAD=f"{FRONT}:{tool}",
        MH_TEST_COUNTS=str(counts),
        MH_TEST_TOOL=str(seen),
    )
    check_ring(result, counts, build)
    _, by_tool, _ = counts_in(seen)
    assert without_start_and_end(+by_tool) == times(CALLS, RANKS)
    assert by_tool["MPI_Init"] == by_tool["MPI_Finalize"] == RANKS


def test_tool_linked_with_the_program_is_a_tool_behind_us(
    build: Build, compiled: Compile, tmp_path: Path
) -> None:
    tool = tool_of(build, compiled)
    program = compiled(build.cc, "ring.c", "-Wl,--no-as-needed", str(tool))
    counts, seen = tmp_path / "counts", tmp_path / "tool"
    changes = {"MH_TEST_COUNTS": str(counts), "MH_TEST_TOOL": str(seen)}
    result = launch(build, [str(program)], RANKS, LD_PRELOAD=str(FRONT), **changes)
    check_ring(result, counts, build)
    assert without_start_and_end(+counts_in(seen)[1]) == times(CALLS, RANKS)


def test_tool_inside_the_program_is_a_tool_before_us(
    build: Build, compiled: Compile, tmp_path: Path
) -> None:
    program = compiled(build.cc, "ring.c", str(PROGRAMS / "tool.c"))
    counts, seen = tmp_path / "counts", tmp_path / "tool"
    changes = {"MH_TEST_COUNTS": str(counts), "MH_TEST_TOOL": str(seen)}
    result = launch(build, [str(program)], RANKS, LD_PRELOAD=str(FRONT), **changes)
    assert (result.code, result.out.split()) == (0, ["ring", "1"]), result.err
    assert without_start_and_end(+counts_in(seen)[1]) == times(CALLS, RANKS)
    assert counts_in(counts)[1]["MPI_Allreduce"] == RANKS


@pytest.mark.parametrize("helped", [True, False], ids=["helped", "off"])
def test_variadic_arguments_reach_the_tool_behind_us(
    build: Build, compiled: Compile, tmp_path: Path, helped: bool
) -> None:
    tool = tool_of(build, compiled)
    counts, seen = tmp_path / "counts", tmp_path / "tool"
    result = launch(
        build,
        [str(compiled(build.cc, "pcontrol.c"))],
        1,
        LD_PRELOAD=f"{FRONT}:{tool}",
        MH_TEST_COUNTS=str(counts),
        MH_TEST_TOOL=str(seen),
        MH_ENABLE=str(int(helped)),
    )
    assert result.code == 0, result.err
    assert counts_in(seen)[1]["MPI_Pcontrol"] == 1
    assert counts_in(counts)[1]["MPI_Pcontrol"] == int(helped)


def test_switched_off_the_calls_go_to_the_library(
    build: Build, compiled: Compile, tmp_path: Path
) -> None:
    result = launch(
        build,
        [str(compiled(build.cc, "ring.c"))],
        RANKS,
        LD_PRELOAD=str(FRONT),
        MH_TEST_COUNTS=str(tmp_path / "counts"),
        MH_ENABLE="0",
    )
    assert (result.code, result.out.split(), result.err) == (0, ["ring", "1"], "")
    assert counts_in(tmp_path / "counts")[2] == 0


def test_a_relative_path_is_found_after_the_program_moved(tmp_path: Path) -> None:
    build = next(b for b in BUILDS if b.name == "mpich5")
    if not build.present:
        pytest.skip("needs the MPICH wheel")
    counts = tmp_path / "counts"
    code = "import os; os.chdir('/'); from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"
    front = os.path.relpath(FRONT)
    result = launch(
        build,
        [str(build.python), "-c", code],
        1,
        LD_PRELOAD=front,
        MH_TEST_COUNTS=str(counts),
    )
    assert (result.code, result.err) == (0, "")
    assert counts_in(counts)[1]["MPI_Barrier"] == 1


def test_a_link_leads_to_the_variants(build: Build, compiled: Compile, tmp_path: Path) -> None:
    link = tmp_path / "libmanyhands.so"
    link.symlink_to(FRONT)
    counts = tmp_path / "counts"
    program = [str(compiled(build.cc, "ring.c"))]
    result = launch(build, program, RANKS, LD_PRELOAD=str(link), MH_TEST_COUNTS=str(counts))
    check_ring(result, counts, build)


# --- calls that an older MPI library lacks ----------------------------------------------------


def test_a_private_module_sees_the_same_calls_with_and_without_us(
    build: Build, compiled: Compile
) -> None:
    loader = compiled("cc", "late.c", "-ldl")
    plugin = compiled(build.cc, "weak.c", "-shared", "-fPIC", "-Wno-deprecated-non-prototype")
    program = [str(loader), str(plugin)]
    plain = launch(build, program, 1)
    helped = launch(build, program, 1, LD_PRELOAD=str(FRONT))
    assert plain.code == helped.code == 0, helped.err
    assert plain.out == helped.out
    lacks_large = build.abi == "openmpi"  # neither Open MPI 4.1 nor 5.0 has the large-count forms
    assert ("Send_c 0" in helped.out) == lacks_large
    assert "Send 1" in helped.out


def test_a_lacking_call_returns_an_error_and_is_named_once(compiled: Compile) -> None:
    build = next(b for b in BUILDS if b.name == "openmpi4")
    if not build.present:
        pytest.skip("needs an MPI library without MPI 4")
    result = launch(build, [str(compiled(build.cc, "lacking.c"))], 1, LD_PRELOAD=str(FRONT))
    assert result.code == 0, result.err
    assert result.out.split() == ["error"] * 3
    assert result.err.count("MPI_Isendrecv is called, but this MPI (Open MPI v4") == 1


# --- unusual installations and libraries -------------------------------------------------------


def test_without_its_variant_the_program_runs_without_help(
    build: Build, compiled: Compile, tmp_path: Path
) -> None:
    alone = Path(shutil.copy(FRONT, tmp_path))
    program = [str(compiled(build.cc, "ring.c"))]
    result = launch(build, program, RANKS, LD_PRELOAD=str(alone))
    assert (result.code, result.out.split()) == (0, ["ring", "1"])
    lines = [line for line in result.err.splitlines() if "manyhands" in line]
    assert len(lines) == 1, "said once per node"
    assert "runs without help" in lines[0]
    assert f"libmanyhands-{build.abi}.so" in lines[0]


def test_a_variant_of_another_build_is_refused(compiled: Compile, tmp_path: Path) -> None:
    build = next(b for b in BUILDS if b.name == "mpich5")
    if not build.present:
        pytest.skip("needs the MPICH wheel")
    table = json.loads((ROOT / "src/mpi/calls.json").read_text())
    chapter = next(c for c in table["chapters"] if "Sendrecv" in c["calls"])
    del chapter["calls"]["Sendrecv"]
    (tmp_path / "calls.json").write_text(json.dumps(table))
    generate = [sys.executable, str(ROOT / "src/mpi/generate.py"), "--stand-in"]
    generate += ["--table", str(tmp_path / "calls.json"), "--out", str(tmp_path)]
    subprocess.run(generate, check=True)
    sources = [tmp_path / "mpi/next.cpp", tmp_path / "mpi/wrappers.cpp"]
    sources += [ROOT / "src/mpi/front/variant.cpp", ROOT / "tests/front/stand_in.cpp"]
    folders = [ROOT / "src", tmp_path, ROOT / "tests/front", Path(build.cc).parents[1] / "include"]
    command = ["c++", "-std=c++20", "-shared", "-fPIC", "-DMH_ABI_MPICH", *map(str, sources)]
    command += [f"-I{folder}" for folder in folders]
    subprocess.run([*command, "-o", str(tmp_path / "libmanyhands-mpich.so")], check=True)
    front = Path(shutil.copy(FRONT, tmp_path))
    result = launch(build, [str(compiled(build.cc, "ring.c"))], RANKS, LD_PRELOAD=str(front))
    assert (result.code, result.out.split()) == (0, ["ring", "1"])
    assert result.err.count("are from different builds") == 1


def toy(compiled: Compile, *options: str) -> list[str]:
    library = compiled("cc", "toy_mpi.c", "-shared", "-fPIC", *options)
    program = compiled("cc", "toy_program.c", str(library), f"-Wl,-rpath,{library.parent}")
    return [str(program)]


def test_an_unknown_mpi_runs_without_help_and_keeps_every_register(compiled: Compile) -> None:
    result = execute(toy(compiled), LD_PRELOAD=str(FRONT))
    assert result.code == 0, result.err
    assert result.out.splitlines() == ["level 3 sum 78", "failures 0"]
    assert result.err.count("without help: an unknown MPI") == 1


def test_threads_may_race_to_the_first_call(compiled: Compile) -> None:
    program = toy(compiled)
    for _ in range(20):
        result = execute([*program, "no-first-call"], LD_PRELOAD=str(FRONT))
        assert (result.code, result.out) == (0, "failures 0\n")


def test_a_library_that_is_not_what_it_says_is_refused(compiled: Compile) -> None:
    result = execute(toy(compiled, '-DTOY_VERSION="MPICH Version: 9"'), LD_PRELOAD=str(FRONT))
    assert result.code == 0, result.err
    assert result.err.count("without help: an MPI of the MPICH family without the common ABI") == 1


def test_a_library_that_lacks_the_basics_is_refused(compiled: Compile, tmp_path: Path) -> None:
    name = "libmpi.so.12"
    library = compiled(
        "cc", "toy_mpi.c", "-shared", "-fPIC", '-DTOY_VERSION="MPICH 9"', f"-Wl,-soname,{name}"
    )
    (tmp_path / name).symlink_to(library)
    program = compiled("cc", "toy_program.c", str(library), "-Wl,--allow-shlib-undefined")
    result = execute([str(program)], LD_PRELOAD=str(FRONT), LD_LIBRARY_PATH=str(tmp_path))
    assert result.code == 0, result.err
    assert result.err.count("lacks functions that every MPI of its kind has") == 1


def test_an_mpi_inside_the_program_never_reaches_us(compiled: Compile) -> None:
    """The linker has bound a statically linked MPI: the front must not disturb it."""
    library = compiled("cc", "toy_mpi.c", "-c")
    program = [str(compiled("cc", "toy_program.c", "-xnone", str(library), "-rdynamic"))]
    assert execute(program) == execute(program, LD_PRELOAD=str(FRONT))


def test_pmpi_may_lie_in_a_library_of_its_own(compiled: Compile, tmp_path: Path) -> None:
    """Tests a layout of some builds of the standard ABI: MPI_X in libmpi_abi, PMPI_X in
    libpmpi_abi.
    """
    for name, source in (("libpmpi_abi.so.1", "toy_mpi.c"), ("libmpi_abi.so.1", "toy_mpi_only.c")):
        options = ["-shared", "-fPIC", "-Wl,-soname," + name, "-Wl,--no-as-needed"]
        if source == "toy_mpi_only.c":
            options.append(str(tmp_path / "libpmpi_abi.so.1"))
        (tmp_path / name).symlink_to(compiled("cc", source, *options))
    libraries = [str(tmp_path / name) for name in ("libmpi_abi.so.1", "libpmpi_abi.so.1")]
    program = compiled("cc", "toy_program.c", *libraries)
    result = execute([str(program)], LD_PRELOAD=str(FRONT), LD_LIBRARY_PATH=str(tmp_path))
    assert result.code == 0, result.err
    assert result.out.splitlines() == ["level 3 sum 78", "failures 0"]
    # The front tried the variant for the standard ABI, and the variant found that the toy library
    # is no complete MPI.
    assert result.err.count("libpmpi_abi.so.1 lacks functions that every MPI of its kind has") == 1


# --- programs without MPI ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["/bin/true"],
        ["/bin/false"],
        ["bash", "-c", "echo one | cat; exit 3"],
        [sys.executable, "-c", "import ctypes, threading; print(ctypes.CDLL(None).getpid() > 0)"],
    ],
    ids=["true", "false", "bash", "python"],
)
def test_a_program_without_mpi_is_as_before(command: list[str]) -> None:
    assert execute(command) == execute(command, LD_PRELOAD=str(FRONT))


# --- the libraries that a build makes ----------------------------------------------------------


def dynamic_section(library: Path) -> str:
    return execute(["readelf", "-d", str(library)]).out


def exported(library: Path) -> list[str]:
    lines = execute(["nm", "-D", "--defined-only", str(library)]).out.splitlines()
    return [line.split()[-1] for line in lines]


# Libraries with exported functions of their own: the malloc family (heap), and the interfaces of
# light tasks, messages and task collections. The tests of libraries that export a single function
# leave them out.
OTHERS = {f"libmanyhands-{room}.so" for room in ("heap", "lci", "tasks", "ult")}


def products() -> list[Path]:
    built = [*STAND_IN.glob("*.so"), *(ROOT / "build/lib").glob("*.so")]
    return sorted(path for path in built if path.name not in OTHERS)


@pytest.mark.parametrize("library", products(), ids=lambda p: f"{p.parent.parent.name}-{p.name}")
def test_no_product_needs_an_mpi_or_a_cxx_library(library: Path) -> None:
    needed = [line for line in dynamic_section(library).splitlines() if "(NEEDED)" in line]
    assert needed
    for word in ("libmpi", "libmpich", "libopen", "libstdc++", "libgfortran"):
        assert not any(word in line for line in needed), needed


@pytest.mark.parametrize("library", products(), ids=lambda p: f"{p.parent.parent.name}-{p.name}")
def test_a_product_exports_nothing_but_its_door(library: Path) -> None:
    names = exported(library)
    if library.name == "libmanyhands.so":
        others = {name for name in names if not name.startswith(("MPI_", "PMPI_"))}
        assert others == {"__mh_ws_mark", "__mh_ws_lock", "__mh_ws_unlock", "__mh_idle_work"}
        assert {"MPI_Send", "PMPI_Send", "MPI_Send_c", "MPI_Pcontrol"} <= set(names)
        # mpi4py takes each of these symbols as a sign that the program is linked with an MPI, so
        # libmanyhands.so must not export them.
        assert not {"MPI_Get_version", "MPI_Get_library_version", "ompi_mpi_comm_self"} & set(names)
    else:
        assert names == ["mh_variant_open"]
