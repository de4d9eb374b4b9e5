# SPDX-License-Identifier: BSD-3-Clause
"""Starts a program for `mh run`: with the library preloaded, by the launcher of the program's MPI.

`mh` *becomes* the launcher (execve). Signals, terminal, exit code and process tree are those of the
launcher itself: nothing has to be forwarded, and nothing can be orphaned. Inside a rank that a
launcher has started (`srun -n 8 mh run ./app`), `mh` becomes the program. This module imports
little, because imports delay the program.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import NoReturn

from manyhands_unix import streams

from manyhands import installation, launcher, openmp_threads, program, say, words

# A process is a rank already if it has all environment variables of one of these rows, which
# launchers set for ranks. Slurm sets them in the shell of a job, too (`srun --pty bash`).
SLURM_MARKS = ("SLURM_PROCID", "SLURM_STEP_ID")
RANK_MARKS = (
    ("PMI_RANK",),
    ("PMIX_RANK",),
    ("OMPI_COMM_WORLD_RANK",),
    ("PALS_RANKID",),
    SLURM_MARKS,
)


def is_rank() -> bool:
    return any(map(_has_all, RANK_MARKS))


def is_rank_and_no_shell() -> bool:
    return any(_has_all(marks) for marks in RANK_MARKS if marks is not SLURM_MARKS)


def _has_all(marks: tuple[str, ...]) -> bool:
    return all(name in os.environ for name in marks)


def preload_with(library: Path, others: str | None) -> str:
    """The value of LD_PRELOAD: libraries of other tools, which stay in front, then ours."""
    ours = [str(path) for path in installation.preloaded(library)]
    kept = [path for path in (others or "").replace(":", " ").split() if path not in ours]
    return ":".join([*kept, *ours])


def rank_environment(library: Path, preload: str | None) -> dict[str, str]:
    """The variables for the ranks: LD_PRELOAD, the user's settings, and MH_SUMMARY=1 as its
    default.
    """
    others = preload or os.environ.get("LD_PRELOAD")
    settings = {key: value for key, value in os.environ.items() if key.startswith("MH_")}
    return {
        "LD_PRELOAD": preload_with(library, others),
        "MH_SUMMARY": "1",
        **dict(sorted(settings.items())),
    }


def check_program(line: words.CommandLine) -> Path | None:
    """The program's file. Exits with 126 or 127 if the file cannot be executed.

    None: the launcher looks for the program in another folder.
    """
    word = line.program[0]
    moved = words.finds_elsewhere(line.launcher)
    try:
        return program.locate(word)
    except program.NotThere:
        if moved:
            return None
        say.not_there(word)
    except program.NotExecutable as reason:
        if moved:
            return None
        hint = f"; for a Python script: mh run ... python {word}" if word.endswith(".py") else ""
        say.fail(f"cannot execute {word}: {reason}{hint}", say.NOT_EXECUTABLE)


def words_of(line: words.CommandLine, file: Path | None) -> list[str]:
    """The program and its arguments. A path replaces a name such as `-app`, which a launcher would
    take for an option.
    """
    word, *arguments = line.program
    return [program.as_word(file) if file and word.startswith("-") else word, *arguments]


def report_reach(file: Path, mpi: program.MpiLibrary | None) -> None:
    """Tells the user if the library can do nothing for this program."""
    reason = program.keeps_preload_out(file)
    if reason is not None:
        say.note(f"{file} runs without help: {reason}, so no library can be preloaded into it")
    elif mpi is None and program.elf_of(file) is not None:
        say.note(
            f"{file} is not linked to an MPI library; Manyhands helps only if the program loads "
            "one at run time"
        )


def choose_launcher(
    given: str | None, name: str, mpi: program.MpiLibrary | None
) -> launcher.Launcher:
    if given is None:
        chosen = launcher.choose(mpi)
        if chosen is None:
            kind = f"{mpi.family.title} (found {mpi.path})" if mpi else "any MPI"
            say.fail(
                f"found no launcher of {kind}: put its mpiexec on the PATH, or name it with "
                "--mpiexec PATH",
                say.NOT_FOUND,
            )
        return chosen
    try:
        path = program.locate(given)
    except program.NotThere:
        say.fail(f"--mpiexec: cannot find {given}: check the path", say.NOT_FOUND)
    except program.NotExecutable as reason:
        say.fail(f"--mpiexec: cannot execute {given}: {reason}", say.NOT_EXECUTABLE)
    chosen = launcher.Launcher(path, launcher.kind_of(path))
    if mpi is not None and not launcher.matches(chosen.kind, mpi.family):
        better = launcher.choose(mpi)
        advice = f"use --mpiexec {better.path}" if better else "leave --mpiexec out"
        say.note(
            f"{name} loads {mpi.family.title} ({mpi.path}), but {given} is the launcher of "
            f"{chosen.kind.title}, which is likely to make every process rank 0: {advice}"
        )
    return chosen


def become(command: list[str]) -> NoReturn:
    """Replaces this process by a program."""
    # Python ignores SIGPIPE and SIGXFSZ at its start, and an ignored signal stays ignored across
    # execve. The program must find both with their default actions, as if mh had not been there.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        say.fail(f"cannot execute {command[0]}: {error.strerror}", say.NOT_EXECUTABLE)


def command_of(
    line: words.CommandLine, mpiexec: str | None, chosen: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """The launcher's command line, and the environment of the ranks with the `chosen` settings.

    Inside a rank, the command line is that of the program alone.
    """
    if not line.program:
        say.fail("no program given: mh run -n 4 ./app (see mh run --help)", say.USAGE)
    file = check_program(line)
    library = installation.library()
    if library is None:
        say.fail(installation.what_is_missing())
    mpi = program.mpi_of(line.program) if file is not None else None
    if file is not None:
        report_reach(file, mpi)
    options, preload = launcher.take_preload(line.launcher)
    environment = {**rank_environment(library, preload), **chosen}
    if starts_alone(line, mpiexec):
        return words_of(line, file), environment
    found = choose_launcher(mpiexec, line.program[0], mpi)
    return launcher.compose(found, options, words_of(line, file), environment), environment


def starts_alone(line: words.CommandLine, mpiexec: str | None) -> bool:
    """True inside a rank that a launcher has started, if the command line asks for no launcher:
    `mh` then becomes the program.
    """
    return is_rank() and not line.launcher and mpiexec is None


def start(
    line: words.CommandLine,
    mpiexec: str | None = None,
    dry_run: bool = False,
    threads: str | None = None,
) -> None:
    """Becomes the launcher, or inside a rank the program. Exits with a message if that fails.

    `threads`: the value of --openmp-threads.
    """
    chosen = openmp_threads.settings(threads, is_rank()) if threads is not None else {}
    command, environment = command_of(line, mpiexec, chosen)
    if dry_run:
        print(shlex.join(command))
        return
    if starts_alone(line, mpiexec):
        os.environ.update(environment)
    else:
        streams.open_for_launcher()
    if environment.get("MH_VERBOSE", "").strip() == "2":
        say.note(f"starting: {shlex.join(command)}")
    become(command)


def start_at_once(args: list[str]) -> bool:
    """Starts a command line without options of `mh run` itself. Returns False if it has such
    options.
    """
    line = words.split(args)
    if line.own:
        return False
    start(line)
    return True
