# SPDX-License-Identifier: BSD-3-Clause
"""Tests which collectives the ranks of a node carry out, and which are left to the library.

Results are right either way, so only this test shows that the ranks carry out collectives.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from harness.launch import QUICK, Arm, compiled, run, with_heap, without_heap
from manyhands_bench.mpis import MpiBuild

SOURCE = Path(__file__).parent / "collectives_of_each_kind.c"
ROUNDS = 20
CALLS = 15
BY_PAIRS = 7  # gather, scatter, and the calls with a count for each rank
SCANS = 2

pytestmark = pytest.mark.under(*QUICK)


def carried_out(mpi: MpiBuild, arm: Arm, ranks: int, **env: str) -> float:
    """Returns how many of the fifteen calls in a round of the program the ranks carried out."""
    program = compiled(mpi, SOURCE.stem, [SOURCE])
    done = run(mpi, arm, ranks, [str(program)], {"ROUNDS": str(ROUNDS), **env})
    assert done.code == 0, done.told()
    done.expect_clean()
    assert done.summary is not None
    return done.summary["total"]["collectives_direct"] / (ROUNDS * ranks)


def sums_carried_out(mpi: MpiBuild, arm: Arm, ranks: int, **env: str) -> int:
    name = "sums_of_many_ranks_have_the_bits_of_the_library"
    program = compiled(mpi, name, [SOURCE.with_name(f"{name}.c")])
    done = run(mpi, arm, ranks, [str(program)], {"CALLS": "90", **env})
    assert done.code == 0, done.told()
    assert done.summary is not None
    return int(done.summary["total"]["collectives_direct"])


@pytest.mark.parametrize("ranks", [2, 3])
def test_all_short_ones_need_no_heap(mpi: MpiBuild, helped: Arm, ranks: int) -> None:
    assert carried_out(mpi, without_heap(helped), ranks, BYTES="8") == CALLS
    assert carried_out(mpi, without_heap(helped), ranks, BYTES="2000") == CALLS


def test_a_round_stages_eight_kilobytes_of_a_rank(mpi: MpiBuild, helped: Arm) -> None:
    """To MPI_Reduce_scatter_block, each of the two ranks gives two blocks of BYTES, more than is
    staged.
    """
    assert carried_out(mpi, without_heap(helped), 2, BYTES="8192") == CALLS - 1
    assert carried_out(mpi, without_heap(helped), 2, BYTES="8196") == BY_PAIRS


def test_long_ones_move_from_heap_to_heap(mpi: MpiBuild, helped: Arm) -> None:
    """Scans that are too long to be staged stay with the library."""
    assert carried_out(mpi, with_heap(helped), 2, BYTES="65536") == CALLS - SCANS


def test_long_ones_in_other_memory_go_by_messages_or_the_library(
    mpi: MpiBuild, helped: Arm
) -> None:
    assert carried_out(mpi, with_heap(helped), 2, BYTES="65536", ON_STACK="1") == BY_PAIRS


def test_sums_of_many_ranks_are_carried_out_once_their_order_is_known(
    mpi: MpiBuild, helped: Arm
) -> None:
    """The program makes two kinds of sums with all ranks, and each is tested after 64 calls.

    Two of the ranks make a third kind, 180 times each, which needs no test.
    """
    known = sums_carried_out(mpi, without_heap(helped), 3) - 2 * 180
    assert known == 3 * 2 * (90 - 64)


@pytest.mark.under("openmpi4")  # MPICH's waits of four ranks on two cores take ten seconds
def test_long_sums_of_many_ranks_move_from_heap_to_heap(mpi: MpiBuild, helped: Arm) -> None:
    """All four ranks make three kinds of sums, one of them long. Three of the ranks make one more
    kind.
    """
    assert sums_carried_out(mpi, with_heap(helped), 4, LONG="20003") == (4 * 3 + 3) * (90 - 64)


def test_none_is_carried_out_if_the_program_has_loaded_an_accelerator_runtime(
    mpi: MpiBuild, helped: Arm, tmp_path: Path
) -> None:
    runtime = tmp_path / "libcuda.so.1"
    linker = ["-shared", "-Wl,-soname,libcuda.so.1", "-x", "c", "/dev/null"]
    subprocess.run([str(mpi.mpicc), *linker, "-o", str(runtime)], check=True)
    stub = tmp_path / "stub.c"
    stub.write_text(
        "#include <dlfcn.h>\n#include <stdlib.h>\n"
        "__attribute__((constructor)) static void load(void) {\n"
        '  if (!dlopen(getenv("RUNTIME"), RTLD_NOW)) abort();\n'
        "}\n"
    )
    program = compiled(mpi, "collectives_with_devices", [SOURCE, stub])
    env = {"RUNTIME": str(runtime), "ROUNDS": "5", "BYTES": "8"}
    done = run(mpi, without_heap(helped), 2, [str(program)], env)
    assert done.code == 0, done.told()
    done.expect_clean()
    assert done.summary is not None
    assert done.summary["total"]["collectives_direct"] == 0


@pytest.mark.under("openmpi5")  # the only one here with ULFM
def test_ranks_whose_loss_is_tolerated_wait_in_the_library(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled(mpi, SOURCE.stem, [SOURCE])
    env = {"ROUNDS": "5", "BYTES": "8", "OMPI_MCA_mpi_ft_enable": "1"}
    done = run(mpi, helped, 2, [str(program)], env)
    assert done.code == 0, done.told()
    assert done.summary is not None
    assert "tolerates" in done.summary["not_helping_because"]


def test_nothing_is_carried_out_while_switched_off(mpi: MpiBuild, helped: Arm) -> None:
    program = compiled(mpi, SOURCE.stem, [SOURCE])
    done = run(mpi, helped, 2, [str(program)], {"MH_ENABLE": "0"})
    assert done.code == 0, done.told()
    assert done.summary is None
