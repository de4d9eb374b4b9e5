# SPDX-License-Identifier: BSD-3-Clause
"""Splits the command line of `mh run` and `mh profile` into the launcher's options and the program.

`--` marks the border. Without `--`, the number of values of each option has to be known. The tables
below have the usual options of Hydra, Open MPI and Slurm. An option in no table, or one that only
some launchers give a value (-q), takes the next word as its value, unless the next word is itself
an option or names an executable program.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from manyhands.program import NotExecutable, NotThere, locate

# Launcher options with one value, without their leading dashes: launchers accept one or two dashes.
ONE_VALUE = frozenset(
    # options that several launchers have
    "n np c N host H hosts hostfile machinefile wdir wd bind-to map-by timeout path "
    # options of Hydra, the launcher of MPICH
    "f ppn perhost configfile envlist genvlist membind launcher bootstrap launcher-exec "
    "bootstrap-exec iface localhost rmk outfile-pattern errfile-pattern order-nodes "
    "prepend-pattern topolib usize gpus-per-proc gpu-subdevs-per-proc "
    # options of Open MPI's launcher
    "x xterm npernode npersocket rank-by rf rankfile output-filename prefix tune am "
    "default-hostfile stdin personality output display runtime-options with-ft dvm cpu-set "
    "cpu-list cpus-per-proc cpus-per-rank slot-list preload-files ompi-server app pset "
    "launch-agent max-vm-size add-host add-hostfile max-restarts "
    # options of srun, the launcher of Slurm
    "p A t w J o e i m G D C ntasks nodes cpus-per-task mpi cpu-bind partition account time mem "
    "mem-per-cpu gres gpus gpus-per-task gpus-per-node ntasks-per-node ntasks-per-core "
    "ntasks-per-socket distribution export exclude nodelist output error input chdir job-name "
    "reservation qos constraint hint mem-bind het-group jobid network threads-per-core".split()
)
# Options that change the directory or the search path of the program. After these options, a
# relative program path is not relative to the current directory, so mh cannot find the file.
ELSEWHERE = frozenset(["wdir", "wd", "chdir", "D", "path", "preload-binary", "s"])
TWO_VALUES = frozenset(["env", "genv", "mca", "gmca", "omca", "prtemca", "pmixmca"])
NO_VALUE = frozenset(
    [
        "oversubscribe",
        "nooversubscribe",
        "allow-run-as-root",
        "v",
        "vv",
        "vvv",
        "verbose",
        "quiet",
        "tag-output",
        "info",
        "l",
        "timestamp-output",
        "report-bindings",
        "display-map",
        "display-allocation",
        "display-devel-map",
        "prepend-rank",
        "label",
        "use-hwthread-cpus",
        "nolocal",
        "localonly",
        "exclusive",
        "overlap",
        "unbuffered",
        "genvall",
        "genvnone",
        "envall",
        "envnone",
        "bynode",
        "byslot",
        "bind-to-core",
        "bind-to-none",
        "bind-to-socket",
        "continuous",
        "do-not-launch",
        "do-not-resolve",
        "enable-recovery",
        "disable-recovery",
        "preload-binary",
        "xml",
        "print-all-exitcodes",
        "print-rank-map",
        "skip-launch-node",
        "disable-hostname-propagation",
        "disable-auto-cleanup",
        "disable-x",
        "get-stack-traces",
        "report-state-on-timeout",
        "pernode",
        "tv",
        "debug",
        "multi-prog",
        "kill-on-bad-exit",
        "K",
        "O",
        "s",
        "u",
    ]
)


@dataclass(frozen=True)
class OwnOptions:
    """The options of `mh run` or `mh profile`; all others are the launcher's."""

    values: frozenset[str]
    flags: frozenset[str]


RUN_OPTIONS = OwnOptions(
    frozenset({"--mpiexec", "--openmp-threads"}), frozenset({"--help", "--dry-run"})
)
PROFILE_OPTIONS = OwnOptions(
    frozenset({"--mpiexec", "--json", "--from", "--top"}), frozenset({"--help", "--plain"})
)


@dataclass
class CommandLine:
    own: list[str] = field(default_factory=list)
    launcher: list[str] = field(default_factory=list)
    program: list[str] = field(default_factory=list)


def names_a_program(word: str) -> bool:
    try:
        locate(word)
    except (NotThere, NotExecutable, OSError):
        return False
    return True


def values_of(option: str, following: list[str]) -> int:
    """The number of words after `option` that are its values; `option` is one of the launcher's."""
    name = option.lstrip("-")
    if "=" in name or name in NO_VALUE or not following:
        return 0
    if name in ONE_VALUE:
        return 1
    if name in TWO_VALUES:
        return 2
    next_word = following[0]
    return 0 if next_word.startswith("-") or names_a_program(next_word) else 1


def finds_elsewhere(options: list[str]) -> bool:
    """True: with these options, the launcher looks for the program in another folder."""
    return any(option.lstrip("-").split("=")[0] in ELSEWHERE for option in options)


def mark_after(words: list[str], start: int) -> int:
    """The index of the first `--` in front of a program, if the word at `start` is no program; else
    `start`.
    """
    if not names_a_program(words[start]):
        for index in range(start + 1, len(words) - 1):
            if words[index] == "--" and names_a_program(words[index + 1]):
                return index
    return start


def split(words: list[str], own: OwnOptions = RUN_OPTIONS) -> CommandLine:
    line = CommandLine()
    index = mark = 0  # no word before `mark` is the program
    while index < len(words):
        word = words[index]
        if word == "--":
            line.program = words[index + 1 :]
            break
        is_option = word.startswith("-") and word != "-"
        if not is_option and mark <= index:
            mark = index if finds_elsewhere(line.launcher) else mark_after(words, index)
        if not is_option and mark == index:
            line.program = words[index:]
            break
        if not is_option:
            taken, goes_to = 1, line.launcher
        elif word in own.values:
            taken, goes_to = 2, line.own
        elif word in own.flags or word.split("=")[0] in own.values:
            taken, goes_to = 1, line.own
        else:
            taken, goes_to = 1 + values_of(word, words[index + 1 :]), line.launcher
        goes_to.extend(words[index : index + taken])
        index += taken
    return line
