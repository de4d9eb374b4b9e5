# SPDX-License-Identifier: BSD-3-Clause
"""Drives a compiler through the steps of a command line.

Each source is preprocessed and searched. If the sources and their includes contain no directive,
the command goes to the compiler unchanged. Otherwise the compiler gets the rewritten text on its
standard input, so that no file can be left behind. Only a link of several sources needs temporary
objects, and options such as -save-temps a temporary source. Text is handled as Latin-1, which keeps
every byte.
"""

from __future__ import annotations

import os
import re
import shlex
import sys

from manyhands_unix.endings import catch_endings

from manyhands_compilers import clike, find, fortran, linking, names, process
from manyhands_compilers.linking import Needs
from manyhands_compilers.options import CXX, CommandLine, Input
from manyhands_compilers.places import Faults, marker

ACTION_OPTION = {"object": "-c", "assembly": "-S", "syntax": "-fsyntax-only"}
UNUSED = b"unused-command-line-argument"  # Clang's warning about options that only a link uses
NAMED = ("-MF", "-MT", "-MQ")
SUFFIX = {"object": ".o", "assembly": ".s"}
POSITION = re.compile(r"-f(?:no-)?(?:pic|PIC|pie|PIE)")


class Unit:
    """A source with directives: its rewritten text, and the options to compile it."""

    def __init__(self, source: Input, text: str, options: list[str], language: str) -> None:
        self.source = source
        self.text = text
        self.options = options
        self.language = language  # for -x

    @property
    def data(self) -> bytes:
        return self.text.encode("latin-1")


class Driver:
    def __init__(
        self, kind: str, compiler: list[str], words: list[str], show: bool, share: bool
    ) -> None:
        self.compiler = compiler
        self.words = words
        self.show = show
        self.line = CommandLine(words, cxx=kind == "mhc++")
        self.share_loops = share and self.line.openmp
        self.warns = share and not self.line.openmp
        self.stdin: bytes | None = None  # None: not read yet
        self.workplace = process.Workplace(show)
        self.unclear = b""  # the errors of a source that could not be preprocessed
        self.asked: dict[int, names.Names] | None = None

    def run(self) -> int:
        action = self.line.action
        if action == "leave" or (action != "link" and not self.line.sources):
            return self.as_it_stands()
        catch_endings()
        try:
            units = {s.at: unit for s in self.line.sources if (unit := self.unit(s)) is not None}
        except Faults as faults:
            sys.stderr.buffer.write("".join(f"{f}\n" for f in faults.lines).encode("latin-1"))
            return 1
        if self.unclear:
            return self.as_it_stands()
        with self.workplace:
            if action == "link":
                return self.link(units)
            if not units or (len(self.line.sources) > 1 and self.line.output):
                return self.as_it_stands()
            return self.compile_each(units)

    # --- running the compiler

    def execute(self, command: list[str], text: bytes | None = None) -> int:
        if self.show:
            print(shlex.join(command))
            return 0
        return process.run(command, text).code

    def as_it_stands(self, extra: list[str] | None = None) -> int:
        command = [*self.compiler, *self.words, *(extra or [])]
        if self.unclear and not self.show:
            return self.must_fail(command)
        if self.show or self.stdin is not None or extra:
            return self.execute(command, self.stdin)
        return process.become(command)

    def must_fail(self, command: list[str]) -> int:
        """Runs the compiler on a source that cannot be preprocessed, so that the compiler reports
        the reason.
        """
        # The user's command is executed only if it has a single source, the one that cannot be
        # preprocessed. Of several sources the compiler might compile the others, without their `ws`
        # directives.
        code = process.run(command, self.stdin).code if len(self.line.sources) == 1 else 0
        if code == 0:
            sys.stderr.buffer.write(self.unclear)
            print(
                "error: the source was not preprocessed, so its ws directives have no effect",
                file=sys.stderr,
            )
        return code or 1

    # --- reading and preprocessing a source

    def unit(self, source: Input) -> Unit | None:
        """Returns the rewritten source; None if it has no directives or cannot be preprocessed."""
        data = self.contents(source)
        if data is None or source.kind is None:
            return None
        text = data.decode("latin-1")
        language = fortran if source.is_fortran else clike
        if self.warns and language.may_have_omp_loops(text):
            what = "--share-loops has no effect without -fopenmp; add -fopenmp"
            print(f"{source.path}: warning: {what}", file=sys.stderr)
        if not source.kind.preprocessed:
            if not self.may_have_directives(text, source):
                return None
            text = self.preprocessed(source)
        elif not text.startswith("# "):
            text = f"{marker((os.fsencode(source.path).decode('latin-1'), 1))}\n{text}"
        if not language.has_directives(text, self.share_loops):
            return None
        if self.show and not source.kind.preprocessed:
            print(shlex.join(self.preprocess_command(source, dependencies=True)))
        return self.fortran_unit(source, text) if language is fortran else self.c_unit(source, text)

    def contents(self, source: Input) -> bytes | None:
        try:
            if source.path == "-":
                if self.stdin is None:
                    self.stdin = sys.stdin.buffer.read()
                return self.stdin
            with open(source.path, "rb") as file:
                return file.read()
        except OSError:
            return None  # the compiler reports the reason

    def may_have_directives(self, text: str, source: Input) -> bool:
        """False if the source certainly has no directive, so that it need not be preprocessed."""
        if source.is_fortran:
            return "include" in text.lower() or fortran.has_directives(text, self.share_loops)
        included = any(flag.startswith(("-include", "-imacros", "--i")) for flag in self.line.flags)
        return included or "include" in text or "import" in text or "ws" in text or self.share_loops

    def preprocess_command(self, source: Input, dependencies: bool) -> list[str]:
        words = self.line.pick("other", "preprocess")
        if dependencies and not source.is_fortran:
            words += self.dependency_words(source)
        words += ["-E"] if source.is_fortran else ["-E", "-dD"]
        words = [word for word in words if word not in ("-P", "-fdirectives-only")]
        words += ["-x", source.language] if source.language else []
        return [*self.compiler, *words, source.path]

    def preprocessed(self, source: Input) -> str:
        command = self.preprocess_command(source, dependencies=not self.show)
        given = self.stdin if source.path == "-" else None
        result = process.run(command, given, capture=True)
        if result.code != 0 and UNUSED in result.err:
            result = process.run([*command, f"-Wno-{UNUSED.decode()}"], given, capture=True)
        if result.code != 0:
            self.unclear = result.err or b"the preprocessor failed\n"
            return ""
        text = result.out.decode("latin-1")
        language = fortran if source.is_fortran else clike
        if not language.has_directives(text, self.share_loops):
            return ""  # the compiler reports the error when it gets the source
        lines = result.err.splitlines(keepends=True)
        sys.stderr.buffer.write(b"".join(line for line in lines if UNUSED not in line))
        sys.stderr.buffer.flush()
        return text

    def dependency_words(self, source: Input) -> list[str]:
        """The options for dependency files (-MD, -MF, ...), with the names that the compiler would
        choose.
        """
        asked = self.names(source)
        if asked is None or not asked.depend:
            return self.line.pick("depend")
        if asked.dependency_file in self.later_dependency_files(source):
            return []
        kept = [i for i in self.line.items if i.role == "depend" and i.words[0][:3] not in NAMED]
        return [*(word for item in kept for word in item.words), *self.not_given(asked.depend)]

    def later_dependency_files(self, source: Input) -> list[str | None]:
        """The dependency files of later sources. A later file overwrites an earlier one of the same
        name.
        """
        later = [other for other in self.line.sources if other.at > source.at]
        return [asked.dependency_file for other in later if (asked := self.names(other))]

    def not_given(self, words: list[str]) -> list[str]:
        """`words` holds pairs of option and value. Leaves out the pairs that -Wp, hands to the
        preprocessor.
        """
        given = [part for word in self.line.pick("preprocess") for part in word.split(",")]
        pairs = zip(words[::2], words[1::2], strict=True)
        return [word for name, value in pairs if value not in given for word in (name, value)]

    def names(self, source: Input) -> names.Names | None:
        """The names of the files for this source; None if the command line names all files
        itself.
        """
        if self.asked is None:
            self.asked = {}
            if names.are_needed(self.line):
                answer = process.run([*self.compiler, *self.words, "-###"], capture=True)
                commands = names.commands_in(os.fsdecode(answer.err)) if answer.code == 0 else []
                self.asked = names.by_source(self.line.sources, commands)
        return self.asked.get(source.at)

    def side_words(self, source: Input) -> list[str]:
        """Options that give the further files of the compiler proper the names that it would
        choose.
        """
        asked = self.names(source) if self.line.pick("files") else None
        return asked.side if asked else self.line.pick("naming")

    def output(self, source: Input) -> str:
        return self.line.output or source.stem + SUFFIX.get(self.line.action, ".o")

    # --- rewriting a source

    def c_unit(self, source: Input, text: str) -> Unit:
        assert source.kind is not None
        language = source.kind.language
        clang = self.is_clang(text)
        options = ["-fopenmp"]
        if clang:
            options += ["-Wno-unused-command-line-argument"]
            options += ["-Xclang", "-main-file-name", "-Xclang", source.path]
        if not self.is_position_independent(text):
            options.append("-fPIE")  # otherwise the linker resolves the weak __mh_ws_mark to zero
        request = clike.Request(
            language,
            clang,
            self.line.openmp,
            self.line.openmp_simd,
            self.share_loops,
            not clang and any(re.fullmatch(r"-g\w*3", flag) for flag in self.line.flags),
            lambda lines: self.expand(lines, language),
        )
        name = "c++-cpp-output" if language == CXX else "cpp-output"
        return Unit(source, clike.rewrite(text, request), options, name)

    def fortran_unit(self, source: Input, text: str) -> Unit:
        assert source.kind is not None
        find.check_fortran(self.compiler)
        self.write_fortran_dependencies(source)
        columns = fortran.columns(self.line.flags)
        request = fortran.Request(
            source.kind.fixed, self.line.openmp, self.line.openmp_simd, self.share_loops, columns
        )
        options = ["-ffixed-form" if source.kind.fixed else "-ffree-form", "-fopenmp"]
        folder = os.path.dirname(source.path)
        options += [f"-I{folder}"] if folder else []
        options += [f"-I{path}" for path in self.line.values("-I")]
        return Unit(source, fortran.rewrite(text, request), options, "f95")

    def write_fortran_dependencies(self, source: Input) -> None:
        """Lets the compiler write the dependency file, because only the compiler proper sees the
        included files and modules of a Fortran source.
        """
        depend = self.dependency_words(source)
        if depend:
            words = [*self.line.pick("other", "preprocess"), *depend, "-w", "-fsyntax-only"]
            words += ["-x", source.language] if source.language else []
            command = [*self.compiler, *words, source.path]
            if self.show:
                print(shlex.join(command))
            else:  # the compilation reports errors
                process.run(command, self.stdin if source.path == "-" else None, capture=True)

    def is_clang(self, text: str) -> bool:
        if "\n#define __VERSION__ " in text:
            return "\n#define __clang__ " in text
        answer = process.run([*self.compiler, "--version"], capture=True)
        return b"clang" in answer.out

    def is_position_independent(self, text: str) -> bool:
        if "\n#define __VERSION__ " in text:
            return re.search(r"^#define __(?:PIC|pic|PIE|pie)__ ", text, re.MULTILINE) is not None
        given = [flag for flag in self.line.flags if POSITION.fullmatch(flag)]
        return bool(given) and not given[-1].startswith("-fno")

    def expand(self, lines: str, language: str) -> str:
        """Expands the macros in `lines` with the compiler's own preprocessor."""
        standard = [flag for flag in self.line.flags if flag.startswith(("-std", "-ansi"))]
        command = [*self.compiler, *standard, "-w", "-E", "-x", language, "-"]
        return process.run(command, lines.encode("latin-1"), capture=True).out.decode("latin-1")

    # --- compiling

    def given(self, unit: Unit) -> tuple[list[str], bytes | None]:
        """The input of a compilation: the options that name it, and the text for standard input."""
        path = "-"
        if self.line.pick("files"):
            suffix = {"cpp-output": ".i", "c++-cpp-output": ".ii"}.get(unit.language, ".f90")
            path = self.workplace.path(unit.source.stem + suffix)
            self.write(unit, path)
        words = ["-x", unit.language, path]
        if unit.language == "f95":
            words.insert(0, f"-fdebug-prefix-map={path}={unit.source.path}")
        return words, unit.data if path == "-" else None

    def write(self, unit: Unit, path: str) -> None:
        """Writes the rewritten text to `path`, and with -save-temps also in place of the
        preprocessed text.
        """
        asked = self.names(unit.source) if self.line.keeps_temporaries else None
        kept = asked.text if asked else None
        for each in [] if self.show else [path, *([kept] if kept else [])]:
            with open(each, "wb") as file:
                file.write(unit.data)
        if asked and asked.bitcode:  # Clang keeps no bitcode of a preprocessed source
            words = [*self.line.pick("other"), *unit.options, "-Xclang", "-disable-llvm-passes"]
            words += ["-emit-llvm", "-c", "-o", asked.bitcode, "-x", unit.language, path]
            self.execute([*self.compiler, *words])

    def compile_each(self, units: dict[int, Unit]) -> int:
        """Compiles each input to its own output, as the compiler does. No input is linked."""
        code = 0
        option = ACTION_OPTION[self.line.action]
        for source in self.line.inputs:
            if source.linkable:
                continue
            output = self.line.pick("output")
            if not output and self.line.action in SUFFIX:
                output = ["-o", self.output(source)]
            code = self.compile_one(source, units.get(source.at), [option, *output]) or code
        return code

    def compile_one(self, source: Input, unit: Unit | None, words: list[str]) -> int:
        files = [*self.line.pick("files"), *self.side_words(source)]
        if unit is None:
            options = [*self.line.pick("other", "preprocess"), *files]
            if source.is_fortran:
                self.write_fortran_dependencies(source)
            else:
                options += self.dependency_words(source)
            language = ["-x", source.language] if source.language else []
            command = [*self.compiler, *options, *words, *language, source.path]
            return self.execute(command, self.stdin if source.path == "-" else None)
        options = [*self.line.pick("other"), *files, *unit.options]
        read, data = self.given(unit)
        return self.execute([*self.compiler, *options, *words, *read], data)

    # --- linking

    def link(self, units: dict[int, Unit]) -> int:
        needs = Needs() if self.line.last("-r") else self.needs()
        if not units and not needs:
            return self.as_it_stands()
        if not self.line.sources:
            return self.as_it_stands(self.link_words(needs))
        if len(self.line.sources) == 1 and units:
            return self.link_one(next(iter(units.values())), needs)
        return self.link_several(units, needs)

    def needs(self) -> Needs:
        paths = [i.path for i in self.line.inputs if i.linkable]
        passed = linking.passed_to_linker(self.line.pick("link"))
        paths += [word for word in passed if not word.startswith("-")]
        names = [*self.line.values("-l"), *(w[2:] for w in passed if w.startswith("-l"))]
        folders = [*self.line.values("-L"), *(w[2:] for w in passed if w.startswith("-L"))]
        paths += linking.archives(dict.fromkeys(names), folders)
        return linking.needs_of(paths)

    def link_words(self, needs: Needs) -> list[str]:
        words = ["-fopenmp"] if needs.openmp and not self.line.openmp else []
        if needs.fortran:
            words += ["-x", "none", self.stub()]
        return words

    def stub(self) -> str:
        """Compiles the marker of Fortran loops. Returns the path of the object."""
        path = self.workplace.path("mh_ws_mark.o")
        machine = [flag for flag in self.line.flags if flag in ("-m32", "-m64", "-mx32")]
        command = [*find.c_compiler(), *machine, "-O2", "-fPIC", "-c", "-o", path, "-x", "c", "-"]
        self.execute(command, linking.STUB.encode())
        return path

    def link_one(self, unit: Unit, needs: Needs) -> int:
        """Compiles and links a single source with one call of the compiler."""
        needs.openmp = False  # an option of the unit
        needs.fortran = needs.fortran or unit.language == "f95" and fortran.calls_us(unit.text)
        read, data = self.given(unit)
        words = self.with_inputs({unit.source.at: [*read, "-x", "none"]})
        words += [*self.side_words(unit.source), *unit.options, *self.link_words(needs)]
        return self.execute([*self.compiler, *words], data)

    def link_several(self, units: dict[int, Unit], needs: Needs) -> int:
        """Compiles each source to a temporary object, then links the objects."""
        objects: dict[int, list[str]] = {}
        for source in self.line.sources:
            path = self.object_path(source)
            code = self.compile_one(source, units.get(source.at), ["-c", "-o", path])
            if code:
                return code
            objects[source.at] = [path]
            needs.look_into(b"" if self.show else linking.read(path))
        words = [*self.with_inputs(objects), *self.link_words(needs)]
        return self.execute([*self.compiler, *words])

    def object_path(self, source: Input) -> str:
        asked = self.names(source)
        kept = asked.object if asked and self.line.keeps_temporaries else None
        return kept or self.workplace.path(f"{source.at}-{source.stem}.o")

    def with_inputs(self, replaced: dict[int, list[str]]) -> list[str]:
        """The words of the command for the link, with `replaced` in place of the sources."""
        words: list[str] = []
        languages = {i.at: i.language for i in self.line.inputs}
        for at, item in enumerate(self.line.items):
            if at in replaced:
                words += replaced[at]
            elif item.role == "input" and languages[at]:
                words += ["-x", languages[at] or "none", *item.words, "-x", "none"]
            elif item.role not in ("action", "language", "depend", "preprocess"):
                words += item.words
        return words
