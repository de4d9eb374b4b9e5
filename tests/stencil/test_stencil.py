# SPDX-License-Identifier: BSD-3-Clause
"""The stencil equals a serial reference in Python to the last bit, however it is run.

The reference repeats the physics with Python's floats (IEEE doubles, one operation at a time) and
shares no code with the C program.
"""

from __future__ import annotations

import itertools
import json
import re
import struct
from pathlib import Path

import pytest

MASK = (1 << 64) - 1
CELLS = (5, 6, 7)  # x, y, z: odd, so no division over ranks is even
VARS = 3
STEPS = 9
CHECK = 4
GRID = ["--global", "--nx", 5, "--ny", 6, "--nz", 7, "--vars", VARS]
GRID += ["--steps", STEPS, "--check", CHECK, "--seed", 7]


def mix64(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def unit(value: int) -> float:
    return (value >> 11) * 2.0**-53


def place(x: int, y: int, z: int) -> int:
    return (z * CELLS[1] + y) * CELLS[0] + x


def average(grid: list[float], periodic: bool) -> list[float]:
    def at(*cell: int) -> float:
        inside = all(0 <= c < n for c, n in zip(cell, CELLS, strict=True))
        if not inside and not periodic:
            return 0.0
        return grid[place(*(c % n for c, n in zip(cell, CELLS, strict=True)))]

    result = [0.0] * len(grid)
    for z, y, x in itertools.product(*(range(n) for n in reversed(CELLS))):
        low_x, high_x = at(x - 1, y, z), at(x + 1, y, z)
        low_y, high_y = at(x, y - 1, z), at(x, y + 1, z)
        low_z, high_z = at(x, y, z - 1), at(x, y, z + 1)
        total = at(x, y, z) + low_x + high_x + low_y + high_y + low_z + high_z
        result[place(x, y, z)] = total * (1.0 / 7.0)
    return result


def reference(seed: int, periodic: bool) -> list[float]:
    """Returns the final grid, indexed by variable, z, y, x."""
    values: list[float] = []
    for var in range(VARS):
        key = mix64(seed ^ mix64(var))
        grid = [unit(mix64((key + i) & MASK)) for i in range(CELLS[0] * CELLS[1] * CELLS[2])]
        for step in range(STEPS):
            if step % CHECK == 0:
                heat = mix64((key + step) & MASK)
                amount, cell = 100.0 * unit(heat), []
                for n in CELLS:
                    heat = mix64(heat)
                    cell.append(heat % n)
                grid[place(*cell)] += amount
            grid = average(grid, periodic)
        values += grid
    return values


def checksum_of(values: list[float]) -> list[int]:
    count = len(values) // VARS
    bits = struct.unpack(f"{len(values)}Q", struct.pack(f"{len(values)}d", *values))
    return [
        sum(mix64(bits[var * count + i] ^ mix64(i)) for i in range(count)) & MASK
        for var in range(VARS)
    ]


@pytest.fixture(scope="module")
def expected() -> dict[bool, list[float]]:
    return {periodic: reference(7, periodic) for periodic in (False, True)}


WAYS = [
    (1, []),
    (2, ["--halo", "types"]),
    (3, ["--blocking", "sendrecv", "--imbalance", 130]),
    (4, ["--halo", "types", "--blocking", "sendrecv"]),
]


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize(("ranks", "options"), WAYS)
def test_grid_equals_the_serial_reference_bit_for_bit(
    stencil, expected, tmp_path: Path, ranks: int, options: list, periodic: bool
) -> None:
    files = tmp_path / "grid", tmp_path / "sums"
    more = ["--periodic"] if periodic else []
    done = stencil.run(ranks, *GRID, *options, *more, "--dump", files[0], "--checksum", files[1])
    assert done.returncode == 0, done.stderr
    values = expected[periodic]
    assert files[0].read_bytes() == struct.pack(f"{len(values)}d", *values)
    lines = files[1].read_text().splitlines()
    wanted = [f"var {var} all {value:016x}" for var, value in enumerate(checksum_of(values))]
    assert [line for line in lines if re.match(r"var \d+ all ", line)] == wanted
    assert len(lines) == VARS * (ranks + 1) + 1


def test_eight_ranks_in_three_directions_change_nothing(stencil, expected, tmp_path: Path) -> None:
    for halo in ("packed", "types"):
        done = stencil.run(8, *GRID, "--halo", halo, "--dump", tmp_path / halo)
        assert done.returncode == 0, done.stderr
        wanted = struct.pack(f"{len(expected[False])}d", *expected[False])
        assert (tmp_path / halo).read_bytes() == wanted


def test_json_has_the_times_of_every_rank_and_step(stencil, tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    options = ["--steps", 6, "--warmup", 2, "--nx", 8, "--ny", 4, "--nz", 6, "--vars", 3]
    done = stencil.run(3, *options, "--memcpy", 1, "--json", file)
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    assert report["ranks"] == 3
    assert report["processes"] == [1, 1, 3]
    assert report["cells"] == [8, 4, 18]
    assert (report["steps"], report["measured_steps"]) == (6, 4)
    assert report["largest_message_bytes"] == 8 * 4 * 3 * 8
    assert report["bytes_sent_per_step"] == 4 * 8 * 4 * 3 * 8
    assert report["worst_heat_error"] is not None
    assert report["memcpy"]["one_gb_per_s"] > 0 and report["memcpy"]["together_gb_per_s"] > 0
    assert [rank["rank"] for rank in report["times"]] == [0, 1, 2]
    assert report["seconds"] == max(rank["total_s"] for rank in report["times"])
    for rank in report["times"]:
        parts = rank["compute_s"] + rank["pack_s"] + rank["mpi_s"]
        assert parts == pytest.approx(rank["total_s"], abs=1e-6)
        assert sum(rank["step_total_s"]) == pytest.approx(rank["total_s"], abs=1e-6)
        assert len(rank["step_total_s"]) == len(rank["step_mpi_s"]) == 4
        assert 0 <= rank["wait_s"] <= rank["mpi_s"] + 1e-6
    least = [min(rank["step_mpi_s"][step] for rank in report["times"]) for step in range(4)]
    for rank in report["times"]:
        waited = sum(rank["step_mpi_s"]) - sum(least)
        assert rank["wait_s"] == pytest.approx(waited, abs=1e-6)


def test_heat_check_sees_no_error_with_and_without_a_border(any_stencil, tmp_path: Path) -> None:
    for more in ([], ["--periodic"]):
        file = tmp_path / "times.json"
        done = any_stencil.run(4, *GRID, "--steps", 40, *more, "--json", file)
        assert done.returncode == 0, done.stderr
        assert json.loads(file.read_text())["worst_heat_error"] < 1e-13


def test_seed_changes_the_result_and_imbalance_does_not(any_stencil) -> None:
    def result(*options: object) -> str:
        done = any_stencil.run(2, *GRID, *options)
        assert done.returncode == 0, done.stderr
        return re.search(r"hash ([0-9a-f]{16})", done.stdout).group(1)

    assert result() == result("--imbalance", 250) != result("--seed", 8)


def test_progress_counts_to_the_last_step(any_stencil) -> None:
    done = any_stencil.run(2, *GRID, "--progress", "always")
    assert f"stencil: step {STEPS}/{STEPS}" in done.stderr
    assert "step" not in any_stencil.run(2, *GRID).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nx", "0"], "--nx 0: expected a whole number from 1 to 65536"),
        (["--vars", "3x"], "--vars 3x: expected a whole number"),
        (["--imbalance", "-5"], "--imbalance -5: expected a whole number from 0 to 1000"),
        (["--halo", "woven"], "--halo woven: expected packed or types"),
        (["--blocking", "yes"], "--blocking yes: expected none or sendrecv"),
        (["--seed", "-1"], "--seed -1: expected a whole number from 0"),
        (["--frob"], "unknown option --frob"),
        (["--steps"], "value missing after --steps"),
        (["grid.txt"], "argument not understood: grid.txt"),
        (["--steps", "3", "--warmup", "3"], "--warmup must be less than --steps"),
        (["--json", "/no/such/folder/x"], "cannot write /no/such/folder/x: No such file"),
        (["--global", "--nz", "1"], "2 processes along z but only 1 cells"),
        (["--nx", "65536", "--ny", "65536"], "would have more than 2^31-1 values"),
    ],
)
def test_wrong_command_lines_are_refused_once_with_the_reason(
    any_stencil, arguments: list[str], message: str
) -> None:
    done = any_stencil.run(2, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("stencil: ") == 1
    assert message in done.stderr


def test_help_names_every_option(any_stencil) -> None:
    done = any_stencil.run(1, "--help")
    source = (Path(__file__).parents[2] / "examples/stencil/options.c").read_text()
    names = re.findall(r'\{"(\w+)", (?:no|required)_argument', source)
    assert done.returncode == 0
    assert len(names) == 19
    assert [name for name in names if f"--{name}" not in done.stdout] == []
