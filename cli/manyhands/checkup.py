# SPDX-License-Identifier: BSD-3-Clause
"""Checks a program: whether Manyhands can help it at all, its MPI library, and its OpenMP loops.

The program does not run. For a script, its interpreter runs to find the MPI library (program.py).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from manyhands import installation, launcher, loops, program, say
from manyhands.finding import LIMIT, NOTE, OK, Report
from manyhands.static_loops import StaticRegions

STATIC_ADVICE = (
    "use schedule(runtime) and run with OMP_SCHEDULE=dynamic, or use schedule(dynamic, N), or mark "
    "the loops by #pragma ws for (docs/workshare.md)"
)
THREADS = 16  # enough threads of a rank on one core for helpers to take some
BY_THREADS = f"run with MH_OPENMP=static and OMP_NUM_THREADS={THREADS} (docs/openmp.md)"
TWO_RUN_TIMES = (
    "no loops are shared in a process with two OpenMP run times: compile all parts with GCC "
    "(libgomp), or all with Clang (libomp)"
)


@dataclass
class Sharing:
    """The loops that Manyhands can share, in the program and the libraries it loads."""

    objects: list[loops.Loops]
    possible: bool  # the program loads exactly one OpenMP run time

    @property
    def unmarked(self) -> int:
        return sum(item.unmarked for item in self.objects) if self.possible else 0

    @property
    def by_threads(self) -> int:
        return sum(item.static.qualify for item in self.objects) if self.possible else 0

    @property
    def marked(self) -> int:
        return sum(item.marked for item in self.objects) if self.possible else 0


def examine_reach(report: Report, file: Path) -> bool:
    """Reports whether LD_PRELOAD reaches the program. Returns True if it does."""
    reason = program.keeps_preload_out(file)
    if reason is not None:
        static = "static" in reason
        advice = (
            "link the program with shared libraries"
            if static
            else "build a 64-bit program, without set-user-ID, set-group-ID or file capabilities"
        )
        report.add("program", f"{file}: {reason}, so nothing can be preloaded", LIMIT, advice)
        return False
    report.add("program", str(file))
    return True


def examine_its_mpi(report: Report, file: Path) -> bool:
    """Reports the program's MPI library and launcher. Returns True if the program has an MPI
    library.
    """
    mpi = program.mpi_of_file(file)
    if mpi is None:
        advice = (
            "Manyhands helps only if the program loads an MPI library at run time"
            if program.elf_of(file)
            else "the interpreter of this script loads no MPI library either"
        )
        report.add("MPI", "none linked", NOTE, advice)
        return False
    starter = launcher.choose(mpi)
    text = f"{mpi.family.title} {mpi.path} ({starter.path if starter else 'no launcher found'})"
    front = installation.library()
    missing = front is not None and not front.with_name(variant_of(mpi)).exists()
    advice = (
        f"{variant_of(mpi)} is missing beside the library: {installation.how_to_get_programs()}"
        if missing
        else ""
    )
    report.add("MPI", text, LIMIT if missing else OK, advice)
    return True


def variant_of(mpi: program.MpiLibrary) -> str:
    return f"libmanyhands-{mpi.family.value}.so"


def counted(found: loops.Loops) -> str:
    """Describes the loops of a program file or library in words."""
    named = [
        f"{kind} {count}" for kind, count in sorted(found.dynamic_loops.items()) if kind != "any"
    ]
    kinds = f" ({', '.join(named)})" if named else ""
    parts = [number_of(found.regions, "parallel region")]
    if found.marked:
        parts.append(number_of(found.marked, "marked loop"))
    if found.unmarked:
        loops_found = number_of(found.unmarked, "other loop" if found.marked else "loop")
        parts.append(f"{loops_found} that can be shared{'' if found.marked else kinds}")
    if found.static_loops:
        parts.append(number_of(found.static_loops, "static loop"))
    if found.static.qualify or found.static.refused:
        parts.append(by_threads(found.static))
    return ", ".join(parts)


def by_threads(found: StaticRegions) -> str:
    """Describes in words the regions that MH_OPENMP=static can share, and those that it cannot."""
    refused = ", ".join(f"{reason} {count}" for reason, count in sorted(found.refused.items()))
    text = f"{number_of(found.qualify, 'region')} that MH_OPENMP=static can share"
    return f"{text} (others: {refused})" if refused else text


def number_of(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def loops_advice(found: loops.Loops) -> tuple[str, str]:
    """The verdict about the loops of a program file or library, and advice for the user."""
    if found.marked and not found.unmarked:
        return OK, ""
    if not found.unmarked:
        if found.static.qualify:
            return NOTE, BY_THREADS
        return NOTE, STATIC_ADVICE if found.static_loops else ""
    if found.dynamic_loops["runtime"] == found.unmarked and not is_dynamic():
        return NOTE, "run with OMP_SCHEDULE=dynamic"
    return OK, ""


def is_dynamic() -> bool:
    return any(word in os.environ.get("OMP_SCHEDULE", "") for word in ("dynamic", "guided"))


def examine_its_loops(report: Report, file: Path) -> Sharing:
    if program.elf_of(file) is None or program.PYTHON.match(file.name):
        report.add("OpenMP", "unknown: the modules of a script load OpenMP at run time", NOTE)
        return Sharing([], False)
    found = loops.examine(file)
    names = ", ".join(map(str, found.run_times))
    several = len(found.run_times) > 1
    report.add("OpenMP", names or "none", NOTE if several else OK, TWO_RUN_TIMES if several else "")
    for item in found.objects:
        verdict, advice = loops_advice(item)
        report.add(f"loops of {item.path.name}", counted(item), verdict, advice)
    return Sharing(found.objects, len(found.run_times) == 1)


def about_program(mpi: bool, sharing: Sharing) -> str:
    if not mpi:
        return "Manyhands cannot help the program unless it loads an MPI library at run time."
    texts = ["Waiting ranks help to copy large messages between ranks of a node."]
    if sharing.marked:
        texts.append(f"{number_of(sharing.marked, 'marked loop')} can be shared.")
    if sharing.unmarked:
        texts.append(f"MH_OPENMP=1 shares up to {number_of(sharing.unmarked, 'loop')}.")
    if sharing.by_threads:
        texts.append(
            f"MH_OPENMP=static OMP_NUM_THREADS={THREADS} shares up to "
            f"{number_of(sharing.by_threads, 'region')} with static loops."
        )
    if sharing.objects and not (sharing.marked or sharing.unmarked or sharing.by_threads):
        texts.append("None of the program's OpenMP loops can be shared without a change.")
    return " ".join(texts)


def examine_program(report: Report, word: str) -> str:
    """Examines the program that the user named, and returns the conclusion as a sentence."""
    try:
        file = program.locate(word)
    except program.NotThere:
        say.not_there(word)
    except program.NotExecutable as reason:
        say.fail(f"cannot execute {word}: {reason}", say.NOT_EXECUTABLE)
    if not examine_reach(report, file):
        return "The program runs without help from Manyhands."
    if not os.access(file, os.R_OK):
        report.add("MPI", "unknown: the program may be executed but not read", NOTE, "chmod +r")
        return "Nothing is known about the program's MPI and loops."
    mpi = examine_its_mpi(report, file)
    return about_program(mpi, examine_its_loops(report, file))
