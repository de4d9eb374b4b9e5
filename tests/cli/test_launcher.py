# SPDX-License-Identifier: BSD-3-Clause
"""Tests which launcher belongs to an MPI, on prefixes that contain only file names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from manyhands.launcher import Kind, Launcher, choose, compose, kind_of, matches, take_preload
from manyhands.program import Family, MpiLibrary, library_from, linked_mpi

VERSIONS = {
    Kind.HYDRA: "HYDRA build details:\\n    Version: 4.0.2",
    Kind.OPENMPI: "mpiexec (Open MPI) 5.0.11",
    Kind.SLURM: "slurm-wlm 22.05.8",
    Kind.OTHER: "a launcher nobody knows",
}


def fake_launcher(path: Path, kind: Kind) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nprintf "{VERSIONS[kind]}\\n"\n')
    path.chmod(0o755)
    return path


def fake_library(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    source = "int MPI_Init(void) { return 0; }"
    command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-x", "c", "-", "-o"]
    subprocess.run([*command, str(folder / name)], input=source, text=True, check=True)
    return folder / name


def fake_program(path: Path, library: Path, *options: str) -> Path:
    source = "int MPI_Init(void); int main(void) { return MPI_Init(); }"
    command = ["cc", "-x", "c", "-", "-x", "none", str(library), *options, "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True)
    return path


@pytest.mark.parametrize("kind", list(Kind))
def test_kind_by_version(tmp_path: Path, kind: Kind) -> None:
    assert kind_of(fake_launcher(tmp_path / "mpiexec", kind)) is kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mpiexec.hydra", Kind.HYDRA),
        ("orterun", Kind.OPENMPI),
        ("mpiexec.openmpi", Kind.OPENMPI),
        ("prterun", Kind.OPENMPI),
        ("mpiexec.gforker", Kind.OTHER),
        ("srun", Kind.SLURM),
    ],
)
def test_kind_by_name(tmp_path: Path, name: str, kind: Kind) -> None:
    assert kind_of(tmp_path / name) is kind


def test_kind_of_a_link_is_that_of_its_target(tmp_path: Path) -> None:
    fake_launcher(tmp_path / "mpiexec.hydra", Kind.OTHER)
    (tmp_path / "mpiexec").symlink_to(tmp_path / "mpiexec.hydra")
    assert kind_of(tmp_path / "mpiexec") is Kind.HYDRA


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("libmpi.so.12", Family.MPICH),
        ("libmpi.so.12.5.1", Family.MPICH),
        ("libmpich.so.12", Family.MPICH),
        ("libmpi_cray.so.12", Family.MPICH),
        ("libmpi.so.40", Family.OPENMPI),
        ("libmpi.so.40.30.4", Family.OPENMPI),
        ("libmpi_abi.so.1", Family.ABI),
        ("libmpi_mpifh.so.40", None),
        ("libmpi_cxx.so.40", None),
        ("libmpicalc.so.1", None),
    ],
)
def test_family_by_library_name(name: str, family: Family | None) -> None:
    library = library_from(f"/lib/{name}")
    assert (library.family if library else None) is family


@pytest.mark.parametrize(
    ("soname", "family", "right", "wrong"),
    [
        ("libmpi.so.12", Family.MPICH, Kind.HYDRA, Kind.OPENMPI),
        ("libmpi.so.40", Family.OPENMPI, Kind.OPENMPI, Kind.HYDRA),
    ],
)
def test_the_launcher_of_the_library_s_prefix_wins_over_the_path(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    soname: str,
    family: Family,
    right: Kind,
    wrong: Kind,
) -> None:
    library = fake_library(tmp_path / "site" / "lib", soname)
    launcher = fake_launcher(tmp_path / "site" / "bin" / "mpiexec", right)
    fake_launcher(tmp_path / "path" / "mpiexec", wrong)
    monkeypatch.setenv("PATH", f"{tmp_path}/path:/usr/bin:/bin")
    program = fake_program(tmp_path / "app", library, f"-Wl,-rpath,{library.parent}")
    mpi = linked_mpi(program)
    assert mpi == MpiLibrary(library, family)
    assert choose(mpi) == Launcher(launcher, right)


def test_a_wrong_launcher_in_the_prefix_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site" / "lib" / "libmpi.so.40"
    fake_launcher(tmp_path / "site" / "bin" / "mpiexec", Kind.HYDRA)
    on_path = fake_launcher(tmp_path / "path" / "mpiexec", Kind.OPENMPI)
    monkeypatch.setenv("PATH", f"{tmp_path}/path")
    chosen = choose(MpiLibrary(library, Family.OPENMPI))
    assert chosen == Launcher(on_path, Kind.OPENMPI)


def test_library_reached_through_another_library_s_rpath(tmp_path: Path) -> None:
    mpi = fake_library(tmp_path / "mpi" / "lib", "libmpi.so.12")
    between = tmp_path / "libsolver.so"
    source = "int MPI_Init(void); int solve(void) { return MPI_Init(); }"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", str(mpi)]
    command += [f"-Wl,-rpath,{mpi.parent}", "-o", str(between)]
    subprocess.run(command, input=source, text=True, check=True)
    program = tmp_path / "app"
    source = "int solve(void); int main(void) { return solve(); }"
    command = ["cc", "-x", "c", "-", "-x", "none", str(between)]
    command += [f"-Wl,-rpath,{tmp_path}", "-o", str(program)]
    subprocess.run(command, input=source, text=True, check=True)
    assert linked_mpi(program) == MpiLibrary(mpi, Family.MPICH)


def test_library_that_is_not_found_still_tells_the_family(tmp_path: Path) -> None:
    library = fake_library(tmp_path / "gone", "libmpi.so.40")
    program = fake_program(tmp_path / "app", library)
    library.unlink()
    found = linked_mpi(program)
    assert found is not None
    assert found.family is Family.OPENMPI


def test_matching() -> None:
    assert matches(Kind.HYDRA, Family.MPICH)
    assert matches(Kind.OPENMPI, Family.OPENMPI)
    assert not matches(Kind.HYDRA, Family.OPENMPI)
    assert not matches(Kind.OPENMPI, Family.MPICH)
    assert all(matches(Kind.SLURM, family) for family in Family)
    assert all(matches(kind, Family.ABI) for kind in Kind)


GIVEN = {"LD_PRELOAD": "/l.so", "MH_SUMMARY": "1"}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Kind.HYDRA, "-genv LD_PRELOAD /l.so -genv MH_SUMMARY 1 -n 2 ./app x"),
        (Kind.OPENMPI, "-x LD_PRELOAD=/l.so -x MH_SUMMARY=1 -n 2 ./app x"),
        (Kind.SLURM, "-n 2 env LD_PRELOAD=/l.so MH_SUMMARY=1 ./app x"),
        (Kind.OTHER, "-n 2 env LD_PRELOAD=/l.so MH_SUMMARY=1 ./app x"),
    ],
)
def test_environment_in_the_launcher_s_way(kind: Kind, expected: str) -> None:
    command = compose(Launcher(Path("/p/mpiexec"), kind), ["-n", "2"], ["./app", "x"], GIVEN)
    assert " ".join(command) == f"/p/mpiexec {expected}"


def test_every_program_of_a_line_with_colons_gets_open_mpi_s_environment() -> None:
    program = "./a : -n 1 ./b".split()
    command = compose(Launcher(Path("/p/mpiexec"), Kind.OPENMPI), [], program, {"A": "b"})
    assert " ".join(command) == "/p/mpiexec -x A=b ./a : -x A=b -n 1 ./b"


@pytest.mark.parametrize("kind", [Kind.SLURM, Kind.OTHER])
def test_other_launchers_start_one_program_of_a_line_only(
    kind: Kind, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second program would be without our library, and the job would hang."""
    with pytest.raises(SystemExit):
        compose(Launcher(Path("/p/srun"), kind), [], "./a : -n 1 ./b".split(), {"A": "b"})
    assert "srun -n 1 mh run ./a : -n 1 mh run ./b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "rest", "value"),
    [
        ("-n 2", "-n 2", None),
        ("-genv LD_PRELOAD /t.so -n 2", "-n 2", "/t.so"),
        ("-n 2 -x LD_PRELOAD=/t.so -x A=b", "-n 2 -x A=b", "/t.so"),
        ("-x LD_PRELOAD -n 2", "-n 2", None),
        ("-genv A b", "-genv A b", None),
    ],
)
def test_take_preload(options: str, rest: str, value: str | None) -> None:
    assert take_preload(options.split()) == (rest.split(), value)
