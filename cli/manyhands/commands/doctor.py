# SPDX-License-Identifier: BSD-3-Clause
"""`mh doctor`: the abilities of this machine or of a program, and advice to improve them.

The exit code is 0 if ranks can help each other on this machine (or in that program), and 1 if
something has to be changed first.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import typer

from manyhands import __version__, checkup, installation, launcher, machine, settings
from manyhands.finding import LIMIT, NOTE, OK, Report

# --- reaching memory --------------------------------------------------------------------------

SLOW_PAGE_NS = 150  # above, the kernel's copy is slower than two ranks through cells


def why_refused(error: int) -> tuple[str, str]:
    """The likely cause of a refused process_vm_readv, and the remedy."""
    scope = machine.yama_scope()
    if error == errno.ENOSYS:
        return "the kernel lacks process_vm_readv, or a seccomp filter hides it", CONTAINER
    if scope is not None and scope >= 2:
        return f"Yama scope {scope}", "as root: sysctl -w kernel.yama.ptrace_scope=1 (or =0)"
    if machine.seccomp_mode() == 2:
        return "a seccomp filter of the container", CONTAINER
    if scope == 1:
        return "Yama scope 1", "as root: sysctl -w kernel.yama.ptrace_scope=0"
    return os.strerror(
        error
    ).lower(), "run all ranks as the same user; in containers, see docs/containers.md"


CONTAINER = (
    "docker run (or podman run) --cap-add SYS_PTRACE, or --security-opt seccomp=PROFILE with a "
    "profile that permits process_vm_readv and process_vm_writev"
)


def examine_memory(report: Report) -> None:
    plain = machine.try_cma(name_ancestor=False)
    named = machine.try_cma(name_ancestor=True) if plain else 0
    if plain == 0:
        report.memory_path = "cma"
        report.add("CMA between ranks", "works (tried between two processes)")
    elif named == 0:
        report.memory_path = "cma after naming the ancestor"
        report.add(
            "CMA between ranks",
            "works: the library lets the ranks' common ancestor trace them",
        )
    else:
        cause, remedy = why_refused(plain)
        report.add("CMA between ranks", f"refused: {cause}", LIMIT, remedy)
    examine_pace(report)
    examine_restrictions(report)


def examine_pace(report: Report) -> None:
    page = machine.kernel_page_ns() if report.memory_path != "none" else None
    if page is None:
        return
    way = "slow; messages in the shared heap avoid it" if page > SLOW_PAGE_NS else "fast enough"
    report.add("CMA, time per page", f"{page:.0f} ns on top of the copy: {way}")


def examine_restrictions(report: Report) -> None:
    scope = machine.yama_scope()
    meanings = {0: "same user may attach", 1: "descendants only", 2: "only with CAP_SYS_PTRACE"}
    text = "not in this kernel" if scope is None else f"{scope} ({meanings.get(scope, 'nobody')})"
    report.add("Yama scope", text, OK if report.memory_path != "none" or not scope else LIMIT)
    mode = machine.seccomp_mode()
    names = {None: "unknown", 0: "off", 1: "strict", 2: "a filter is active"}
    report.add("seccomp", names.get(mode, str(mode)))
    report.add("CAP_SYS_PTRACE", "held" if machine.may_trace_all() else "not held (not needed)")
    spaces = []
    for kind, initial in (
        ("pid", machine.INITIAL_PID_NAMESPACE),
        ("user", machine.INITIAL_USER_NAMESPACE),
    ):
        own = machine.in_own_namespace(kind, initial)
        spaces.append(f"{kind}: {'unknown' if own is None else 'own' if own else 'of the host'}")
    own_pid = machine.in_own_namespace("pid", machine.INITIAL_PID_NAMESPACE)
    advice = "if a job has several containers, let them share --pid and --ipc" if own_pid else ""
    report.add("namespaces", ", ".join(spaces), NOTE if own_pid else OK, advice)


# --- cores and memory -------------------------------------------------------------------------


def examine_cores(report: Report) -> None:
    usable, online = os.sched_getaffinity(0), machine.online_cpus()
    cores = machine.cores(usable)
    text = f"{len(usable)} of {len(online)} online CPUs usable, on {cores} cores"
    few = cores < 2
    report.add(
        "cores",
        text,
        LIMIT if few else OK,
        "ranks help each other only on two or more cores: give the job more" if few else "",
    )
    for number, cpus in machine.numa_nodes().items():
        report.add(f"NUMA node {number}", f"CPUs {machine.compress(cpus)}")
    bound = usable != online
    report.add(
        "binding",
        f"this shell may use CPUs {machine.compress(usable)}" if bound else "none in this shell",
        NOTE if bound else OK,
        "ranks inherit this binding unless the launcher binds them" if bound else "",
    )
    granted = machine.cgroup_cpus()
    tight = granted is not None and granted < len(usable)
    report.add(
        "cgroup limit",
        "none" if granted is None else f"{granted:g} CPUs",
        NOTE if tight else OK,
        f"start at most {max(1, int(granted or 0))} ranks: the kernel throttles more"
        if tight
        else "",
    )


def size(count: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} bytes"


ENOUGH_SHARED_MEMORY = 16 << 20


def examine_pages(report: Report) -> None:
    setting = machine.transparent_huge_pages()
    report.add("huge pages", f"transparent: {setting}" if setting else "not available")
    facts = machine.shared_memory()
    if facts is None:
        report.add("/dev/shm", "missing", LIMIT, "MPI libraries need it: mount a tmpfs there")
        return
    total, free = facts
    small = free < ENOUGH_SHARED_MEMORY
    report.add(
        "/dev/shm",
        f"{size(total)}, {size(free)} free",
        LIMIT if small else OK,
        "delete files in it, or use docker run --shm-size=64m" if small else "",
    )


def examine_heap(report: Report) -> None:
    """Reports whether ranks on this machine can share large allocations; the heap's library
    decides.
    """
    library = installation.library()
    beside = installation.heap(library) if library else None
    if beside is None:
        return
    mode = os.environ.get("MH_HEAP", "").strip() or "auto"
    if mode not in ("auto", "on"):
        report.add("shared heap", f"off because of MH_HEAP={mode}", NOTE, "unset MH_HEAP")
        return
    good, why = machine.heap_verdict(beside, mode)
    cause, _, remedy = why.partition("; ")
    report.add("shared heap", cause if good else f"off: {cause}", OK if good else NOTE, remedy)


# --- MPI libraries and settings ---------------------------------------------------------------


def examine_mpi(report: Report) -> None:
    library = installation.library()
    if library is None:
        report.add("library", "not found", LIMIT, installation.what_is_missing())
    else:
        report.add("library", str(library))
    found = machine.mpi_with_variants()
    if not found:
        report.add("MPI", "none found", LIMIT, "load the site's MPI module, or pip install mpich")
    for item in found:
        family = item.library.family
        starter = launcher.choose(item.library)
        text = f"{item.library.path} ({starter.path if starter else 'no launcher found'})"
        missing = library is not None and item.variant is None
        report.add(
            family.title,
            text,
            LIMIT if missing else OK if starter else NOTE,
            f"libmanyhands-{family.value}.so is missing beside the library: "
            f"{installation.how_to_get_programs()}"
            if missing
            else "",
        )


def examine_settings(report: Report) -> None:
    values, complaints = settings.current()
    changed = [f"{v.setting.key}={v.text}" for v in values if v.source != "default"]
    off = [word for word in ("MH_ENABLE=0", "MH_MEMORY=none") if word in changed]
    verdict = LIMIT if off else OK
    advice = f"to let ranks help, undo {' and '.join(off)}" if off else ""
    report.add("settings", ", ".join(changed) or "all at their defaults", verdict, advice)
    for complaint in complaints:
        report.add("settings", complaint, NOTE, "mh config explains each setting")


# --- the conclusion and the output ------------------------------------------------------------


def conclusion(report: Report) -> str:
    if report.memory_path == "none":
        return (
            "Ranks cannot read each other's memory here. Outside the shared heap, large messages "
            "go through shared cells, or through the MPI library if ranks outnumber the cores."
        )
    if any(finding.verdict == LIMIT for finding in report.findings):
        return "Ranks can read each other's memory, but note the advice on the limits above."
    return "Waiting ranks help to copy messages between ranks of a node (cross-memory attach)."


def print_table(report: Report, title: str, text: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    console.width = min(console.width, 80)
    marks = {OK: "[green]ok[/]", NOTE: "[yellow]note[/]", LIMIT: "[red]limit[/]"}
    table = Table(title=escape(f"Manyhands {__version__} {title}"), title_justify="left")
    table.add_column("what", overflow="fold")
    table.add_column("found", overflow="fold", ratio=1)
    table.add_column("", no_wrap=True)
    for finding in report.findings:
        found = escape(finding.found)
        if finding.advice:
            found += f"\n[italic]→ {escape(finding.advice)}[/]"
        table.add_row(escape(finding.name), found, marks[finding.verdict])
    console.print(table)
    console.print(escape(text))


def examine_machine(report: Report) -> str:
    """Examines the machine and returns the conclusion as a sentence."""
    for examine in (
        examine_memory,
        examine_cores,
        examine_pages,
        examine_heap,
        examine_mpi,
        examine_settings,
    ):
        examine(report)
    return conclusion(report)


def facts(report: Report, word: str | None, text: str) -> dict[str, object]:
    about = {"program": word} if word else {"way": report.memory_path}
    return {**about, "conclusion": text, "findings": [asdict(item) for item in report.findings]}


def doctor(
    word: str | None = typer.Argument(
        None, metavar="PROGRAM", help="Check this program instead of the machine."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Check this machine or a program, and show the changes that let ranks help more.

    Tests whether ranks can read each other's memory, and checks cores, limits and MPI libraries.
    The exit code is 0 if ranks can help each other here, and 1 if something must be changed first.

    With a PROGRAM, shows the MPI and the OpenMP run time that the program loads, and how many of
    its loops can be shared. The program does not run.
    """
    report = Report()
    text = checkup.examine_program(report, word) if word else examine_machine(report)
    if as_json:
        print(json.dumps(facts(report, word, text), indent=2))
    else:
        print_table(report, f"and {Path(word).name}" if word else "on this machine", text)
    limited = any(finding.verdict == LIMIT for finding in report.findings)
    sys.exit(1 if limited else 0)


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Example: **docker run --cap-add SYS_PTRACE IMAGE mh doctor**, **mh doctor ./app**"
    )(doctor)
