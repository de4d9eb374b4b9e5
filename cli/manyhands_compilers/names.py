# SPDX-License-Identifier: BSD-3-Clause
"""The names of the files that a compiler writes beside its output.

A dependency file, its target, a `.dwo`, `.gcno` or `.su` file are named after the source, the
output, the step and several options, and each version of each compiler has rules of its own. The
wrapper therefore asks the compiler: with `-###` the compiler prints the commands that it would run,
and these commands contain every name. The wrapper passes the names to the steps that compile the
rewritten source.
"""

from __future__ import annotations

import os
import re
import shlex

from manyhands_compilers.options import CommandLine, Input

DEPEND_FILES = ("-MF", "-dependency-file", "-MD", "-MMD")  # the first one present counts
TARGETS = ("-MT", "-MQ")
# Options that name files, of the compiler proper (GCC's cc1 or Clang's -cc1), which the driver
# starts. GCC's driver accepts these options under the same names; Clang's driver passes them on
# after -Xclang.
GCC_NAMES = ("-dumpdir", "-dumpbase", "-dumpbase-ext")
CLANG_COVERAGE = {"-coverage-notes-file": ".gcno", "-coverage-data-file": ".gcda"}
CLANG_NAMES = (
    "-split-dwarf-file",
    "-split-dwarf-output",
    "-stack-usage-file",
    "-opt-record-file",
    *CLANG_COVERAGE,
)
WRITES_DEPENDENCIES = re.compile(r"-MM?D|-Wp,.*-MM?D\b.*")


def are_needed(line: CommandLine) -> bool:
    """False for most command lines of builds, which name the dependency file and its target
    themselves.
    """
    if any(item.role in ("files", "naming") for item in line.items):
        return True
    if not any(WRITES_DEPENDENCIES.fullmatch(flag) for flag in line.flags):
        return False
    file, target = (any(f.startswith(o) for f in line.flags) for o in ("-MF", TARGETS))
    return not (file and target and len(line.sources) == 1)


def commands_in(text: str) -> list[list[str]]:
    """The commands that `-###` printed. Each is on a line that begins with a blank."""
    commands = []
    for line in text.splitlines():
        if line.startswith(" "):
            try:
                commands.append(shlex.split(line))
            except ValueError:
                continue  # a note of the compiler, such as "(in-process)"
    return [command for command in commands if command]


def values(command: list[str], option: str) -> list[str]:
    pairs = zip(command, command[1:], strict=False)
    return [value for word, value in pairs if word == option]


class Names:
    """The names of the files for one source, taken from the commands that the compiler would run
    for it.
    """

    def __init__(self, source: Input, commands: list[list[str]]) -> None:
        self.source = source
        self.commands = commands
        self.first = commands[0] if commands else []  # the command that reads the source
        self.words = [word for command in commands for word in command]

    @property
    def dependency_file(self) -> str | None:
        files = [values(self.first, option)[-1:] for option in DEPEND_FILES]
        return next((file[0] for file in files if file), None)

    @property
    def depend(self) -> list[str]:
        """The options that name the dependency file and its targets; empty if the compiler writes
        none.
        """
        if self.dependency_file is None:
            return []
        words = ["-MF", self.dependency_file]
        for option, value in zip(self.first, self.first[1:], strict=False):
            words += [option, value] if option in TARGETS else []
        if len(words) == 2 and self.source.path != "-" and not self.source.is_fortran:
            words += ["-MQ", f"{self.source.stem}.o"]  # the default of the compiler proper
        return words

    @property
    def side(self) -> list[str]:
        """The options that name the further files of the compiler proper, such as .dwo and
        .gcno.
        """
        if "-cc1" in self.words:
            return self._side_of_clang()
        too_old = {"-auxbase", "-auxbase-strip"} & set(self.words)  # before GCC 11
        if too_old or "-dumpbase" not in self.words:
            return []
        given = {option: values(self.words, option)[-1:] for option in GCC_NAMES}
        given["-dumpdir"] = given["-dumpdir"] or [""]
        return [w for option, name in given.items() if name for w in (option, *name)]

    def _side_of_clang(self) -> list[str]:
        paths = {option: values(self.words, option)[-1:] for option in CLANG_NAMES}
        if "-ftest-coverage" in self.words:
            # If the user's command also links, Clang's driver does not name the coverage files.
            # They then belong in the current folder.
            base = os.path.join(os.getcwd(), self.source.stem)
            for option, end in CLANG_COVERAGE.items():
                paths[option] = paths[option] or [base + end]
        return [w for option, path in paths.items() if path for w in _passed_on(option, *path)]

    # The properties `text`, `bitcode` and `object` name the intermediate files of this source,
    # which the compiler keeps with -save-temps.

    @property
    def text(self) -> str | None:
        """The file with the preprocessed source."""
        fortran = [word[5:] for word in self.first if word.startswith("-cpp=")]
        outputs = fortran or (values(self.first, "-o") if "-E" in self.first else [])
        return outputs[0] if outputs else None

    @property
    def bitcode(self) -> str | None:
        """The file with the input of Clang's optimizer."""
        emitted = [command for command in self.commands if "-emit-llvm-bc" in command]
        return values(emitted[0], "-o")[0] if len(emitted) == 1 else None

    @property
    def object(self) -> str | None:
        outputs = [path for command in self.commands for path in values(command, "-o")]
        return outputs[-1] if outputs and outputs[-1].endswith(".o") else None


def _passed_on(*words: str) -> list[str]:
    return [part for word in words for part in ("-Xclang", word)]


def is_link(command: list[str]) -> bool:
    return os.path.basename(command[0]).startswith(("collect2", "ld", "lld", "mold"))


def by_source(sources: list[Input], commands: list[list[str]]) -> dict[int, Names]:
    """The names for each source. The key is the source's place among the items of the
    command line.
    """
    # A command that reads no source, such as the assembler, belongs to the source of the command
    # before it.
    jobs: list[list[list[str]]] = []
    for command in commands:
        following = sources[len(jobs)].path if len(jobs) < len(sources) else None
        if following in command:
            jobs.append([])
        if jobs and not is_link(command):
            jobs[-1].append(command)
    return {s.at: Names(s, job) for s, job in zip(sources, jobs, strict=False)}
