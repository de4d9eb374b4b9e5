# SPDX-License-Identifier: BSD-3-Clause
"""The command line of a compiler, taken apart as far as the wrapper compilers need.

The words are grouped into *items*: an option and its value are a single item. Each item has a
*role*, which names the steps that the item takes part in.

* `input`, `output` (-o), `action` (-c, -S, -E, ...), `language` (-x)
* `depend` (-MD and similar options), `preprocess` (-D, -include, ...), `link` (-l, -Wl, ...)
* `files`: the compiler proper writes more files. `naming`: these files get other names.
* `other`: all steps

An option that this module does not know is `other` and takes no separate value, as is right for
nearly all options of GCC and Clang.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

# Options of a compiler whose value may be the next word of the command line, as in `-I dir`.
WITH_VALUE = frozenset(
    "-o -x -I -D -U -L -l -J -A -T -u -z -e -B -include -imacros -include-pch -isystem -iquote "
    "-idirafter -iprefix -iwithprefix -iwithprefixbefore -isysroot -imultilib -iframework -MF -MT "
    "-MQ -MJ -Xlinker -Xpreprocessor -Xassembler -Xclang -Xopenmp-target -mllvm -arch -aux-info "
    "-target -gcc-toolchain -rpath -framework -wrapper -dumpbase -dumpdir -dumpbase-ext -specs -F "
    "-fintrinsic-modules-path --param --sysroot --include --imacros --output --language".split()
)
# Options of a compiler whose value may follow in the same word, as in `-Idir`.
JOINED = ("-o", "-x", "-I", "-D", "-U", "-L", "-l", "-J", "-A", "-B", "-F", "-T")

DEPEND = frozenset("-MD -MMD -MP -MG -MF -MT -MQ -MJ".split())
PREPROCESS = frozenset(
    "-I -D -U -A -F -include -imacros -include-pch -isystem -iquote -idirafter -iprefix "
    "-iwithprefix -iwithprefixbefore -imultilib -iframework -Xpreprocessor --include "
    "--imacros -C -CC -P -H -fdirectives-only -fpreprocessed -cpp -nocpp".split()
)
LINK = frozenset(
    "-l -L -T -u -z -e -Xlinker -rpath -framework -nostartfiles -nodefaultlibs -nostdlib -rdynamic "
    "-s -r".split()
)
NAMING = frozenset("-dumpdir -dumpbase -dumpbase-ext".split())
# Options with which a compiler writes more files, named after its source or its output.
FILES = re.compile(
    r"--?save-temps.*|--coverage|-ftest-coverage|-fprofile-.*|-gsplit-dwarf.*|-fdump-.*|"
    r"-fstack-usage|-fcallgraph-info.*|-fopt-info.*|-ftime-trace.*|-fsave-optimization-record.*"
)
# With these options the compiler does not compile, or not in separate steps. The user's command
# then goes to the compiler unchanged.
LEAVE = frozenset("-E -M -MM -### --precompile -emit-ast --analyze".split())
ACTIONS = {"-c": "object", "-S": "assembly", "-fsyntax-only": "syntax"}

C, CXX, FORTRAN = "c", "c++", "fortran"


class Kind(NamedTuple):
    """A kind of source: its language, whether it is already preprocessed, the source form of
    Fortran.
    """

    language: str
    preprocessed: bool = False
    fixed: bool = False


EXTENSIONS = {
    ".c": Kind(C),
    ".i": Kind(C, True),
    ".ii": Kind(CXX, True),
    **{e: Kind(CXX) for e in ".cc .cp .cxx .cpp .CPP .c++ .C".split()},
    **{e: Kind(FORTRAN, True, True) for e in ".f .for .ftn".split()},
    **{e: Kind(FORTRAN, False, True) for e in ".F .FOR .fpp .FPP .FTN".split()},
    **{e: Kind(FORTRAN, True) for e in ".f90 .f95 .f03 .f08".split()},
    **{e: Kind(FORTRAN) for e in ".F90 .F95 .F03 .F08".split()},
}
LANGUAGES = {
    "c": Kind(C),
    "cpp-output": Kind(C, True),
    "c++": Kind(CXX),
    "c++-cpp-output": Kind(CXX, True),
    "f77": Kind(FORTRAN, True, True),
    "f77-cpp-input": Kind(FORTRAN, False, True),
    "f95": Kind(FORTRAN, True),
    "f95-cpp-input": Kind(FORTRAN),
}
SOURCES_OF_OTHERS = frozenset(".s .S .sx .m .mm .M .h .hh .hpp .go .d .adb .ads .cu .hip".split())


class Item(NamedTuple):
    role: str
    words: tuple[str, ...]


class Input(NamedTuple):
    path: str
    kind: Kind | None  # None: the file cannot have directives
    language: str | None  # the value of -x
    at: int  # index of the item on the command line

    @property
    def stem(self) -> str:
        return os.path.splitext(os.path.basename(self.path))[0] or "-"

    @property
    def is_fortran(self) -> bool:
        return self.kind is not None and self.kind.language == FORTRAN

    @property
    def linkable(self) -> bool:
        """True for an object, an archive, a shared library and a linker script."""
        extension = os.path.splitext(self.path)[1]
        return self.kind is None and self.language is None and extension not in SOURCES_OF_OTHERS


def response_file(word: str) -> list[str] | None:
    """The words in the file that `@file` names; None if there is no such file: the word stays."""
    try:
        with open(word[1:], encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return None
    words: list[str] = []
    for quoted in re.finditer(r"""(?:\\.|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s"'\\])+""", text):
        parts = re.findall(r"""\\(.)|(["'])|([^\\"'])""", quoted.group(), re.DOTALL)
        words.append(unquoted(parts))
    return words


def unquoted(parts: list[tuple[str, str, str]]) -> str:
    """Joins the characters of a word, without backslashes and quotes that quote other
    characters.
    """
    inside, letters = "", []
    for escaped, quote, plain in parts:
        if quote and inside in ("", quote):
            inside = "" if inside else quote
        else:
            letters.append(escaped or quote or plain)
    return "".join(letters)


def expanded(words: list[str], depth: int = 0) -> list[str]:
    """The words, with each response file replaced by the words in it."""
    result: list[str] = []
    for word in words:
        inner = response_file(word) if word.startswith("@") and depth < 20 else None
        result.extend([word] if inner is None else expanded(inner, depth + 1))
    return result


def option_name(word: str) -> str:
    """The option that a word contains, without a value joined to it."""
    if word in WITH_VALUE or word in DEPEND or word in PREPROCESS or word in LINK:
        return word
    if word.startswith(("-Wl,", "-fuse-ld")):
        return "-Xlinker"
    if word.startswith("-Wp,") or re.fullmatch(r"-d[DIMNU]+", word):
        return "-Xpreprocessor"
    if word.startswith(("-MF", "-MT", "-MQ")):
        return word[:3]
    if word.startswith(("-include", "-isystem", "-iquote", "-idirafter", "-imacros")):
        return "-include"
    return word[:2] if word[:2] in JOINED else word


def role_of(word: str) -> str:
    if word in ACTIONS or word in LEAVE:
        return "action"
    name = option_name(word)
    if FILES.fullmatch(word):
        return "files"
    roles = (
        ("depend", DEPEND),
        ("preprocess", PREPROCESS),
        ("link", LINK),
        ("naming", NAMING),
    )
    for role, names in roles:
        if name in names:
            return role
    return {"-o": "output", "--output": "output", "-x": "language", "--language": "language"}.get(
        name, "other"
    )


def items_of(words: list[str]) -> list[Item]:
    items: list[Item] = []
    index = 0
    while index < len(words):
        word = words[index]
        taken = 2 if word in WITH_VALUE and index + 1 < len(words) else 1
        is_input = word == "-" or not word.startswith("-")
        group = tuple(words[index : index + taken])
        items.append(Item("input" if is_input else role_of(word), group))
        index += taken
    return items


def value_of(item: Item) -> str:
    if len(item.words) > 1:
        return item.words[1]
    word = item.words[0]
    return word.partition("=")[2] if word.startswith("--") else word[2:]


class CommandLine:
    """The items of a command line, and the properties that drive.py asks for."""

    def __init__(self, words: list[str], cxx: bool = False) -> None:
        self.words = words
        self.items = items_of(expanded(words))
        self.cxx = cxx  # the C++ compiler takes C files for C++
        self.inputs = list(self._inputs())

    def _inputs(self):
        language: str | None = None
        for at, item in enumerate(self.items):
            if item.role == "language":
                value = value_of(item)
                language = None if value == "none" else value
            elif item.role == "input":
                yield Input(item.words[0], self._kind(item.words[0], language), language, at)

    def _kind(self, path: str, language: str | None) -> Kind | None:
        if language is not None:
            return self._with_fortran_options(LANGUAGES.get(language))
        kind = EXTENSIONS.get(os.path.splitext(path)[1])
        if kind is not None and "-fpreprocessed" in self.flags:
            kind = Kind(kind.language, True, kind.fixed)
        if kind is not None and kind.language == C and self.cxx:
            return Kind(CXX, kind.preprocessed)
        return self._with_fortran_options(kind)

    def _with_fortran_options(self, kind: Kind | None) -> Kind | None:
        if kind is None or kind.language != FORTRAN:
            return kind
        preprocessed, fixed = kind.preprocessed, kind.fixed
        for word in self.flags:
            preprocessed = {"-cpp": False, "-nocpp": True}.get(word, preprocessed)
            fixed = {"-ffixed-form": True, "-ffree-form": False}.get(word, fixed)
        return Kind(FORTRAN, preprocessed, fixed)

    @property
    def flags(self) -> list[str]:
        """The first word of each option."""
        return [item.words[0] for item in self.items if item.role != "input"]

    @property
    def action(self) -> str:
        """`leave` (the command goes to the compiler unchanged), `syntax`, `assembly`, `object` or
        `link`.
        """
        flags = set(self.flags)
        if flags & LEAVE or any(flag.startswith("-print") for flag in flags):
            return "leave"
        for flag in ("-fsyntax-only", "-S", "-c"):
            if flag in flags:
                return ACTIONS[flag]
        return "link"

    @property
    def output(self) -> str | None:
        values = [value_of(item) for item in self.items if item.role == "output"]
        return values[-1] if values else None

    @property
    def sources(self) -> list[Input]:
        return [i for i in self.inputs if i.kind is not None]

    def last(self, *names: str) -> str | None:
        """The last of these options on the command line, since only the last counts."""
        given = [flag for flag in self.flags if flag in names]
        return given[-1] if given else None

    @property
    def openmp(self) -> bool:
        """True if the user asks for OpenMP."""
        last = [f for f in self.flags if re.fullmatch(r"-f(no-)?openmp(=\w+)?", f)]
        return bool(last) and not last[-1].startswith("-fno")

    @property
    def openmp_simd(self) -> bool:
        return self.last("-fopenmp-simd", "-fno-openmp-simd") == "-fopenmp-simd"

    @property
    def keeps_temporaries(self) -> bool:
        return any(flag.lstrip("-").startswith("save-temps") for flag in self.flags)

    def pick(self, *roles: str) -> list[str]:
        return [word for item in self.items if item.role in roles for word in item.words]

    def values(self, option: str) -> list[str]:
        """The values of an option that may be joined to its value, such as -I, -L and -l."""
        return [value_of(i) for i in self.items if i.role != "input" and i.words[0][:2] == option]
