# SPDX-License-Identifier: BSD-3-Clause
"""Writes stand-ins for the shared libraries of an older glibc, for the linker alone.

A library that is linked with this machine's glibc asks for the newest version of each symbol, and
does not load on older systems, although glibc also has the older versions. The stand-ins offer each
symbol of this machine's glibc with its newest version up to a limit. A symbol that is newer than
the limit is absent, and the linker complains of it. Only names and versions are copied from glibc.
The C compiler makes the stand-ins from assembler text; programs never load them.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

# Before glibc 2.34, the functions of libpthread and libdl were in libraries of their own. The
# dynamic linker must load these libraries on older systems. For the linker, any stand-in may offer
# the symbols, so these two are empty.
EMPTY = ("libpthread.so.0", "libdl.so.2")
FULL = ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2")
SYMBOL = re.compile(
    r"^\s*\d+: [0-9a-f]+\s+(\w+)\s+(FUNC|IFUNC|OBJECT)\s+(?:GLOBAL|WEAK)\s+DEFAULT\s+\d+"
    r" (\w+)@@?GLIBC_([\d.]+)$",
    re.MULTILINE,
)


class Symbol(NamedTuple):
    name: str
    version: tuple[int, ...]
    bytes: int  # 0 for a function


def number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def symbols_of(listing: str, limit: tuple[int, ...]) -> list[Symbol]:
    """The newest symbol of each name up to `limit`, from what `readelf --dyn-syms` printed."""
    newest: dict[str, Symbol] = {}
    for size, kind, name, text in SYMBOL.findall(listing):
        version = number(text)
        if version <= limit and (name not in newest or newest[name].version < version):
            newest[name] = Symbol(name, version, int(size, 0) if kind == "OBJECT" else 0)
    return sorted(newest.values())


def assembler(symbols: list[Symbol]) -> str:
    lines = ['.section .note.GNU-stack,"",@progbits']
    for symbol in symbols:
        lines.append(".bss" if symbol.bytes else ".text")
        kind = "object" if symbol.bytes else "function"
        lines += [f".globl {symbol.name}", f".type {symbol.name}, @{kind}"]
        lines += [f"{symbol.name}: .skip {symbol.bytes or 1}"]
        lines += [f".size {symbol.name}, {symbol.bytes or 1}"]
    return "\n".join(lines) + "\n"


def version_script(symbols: list[Symbol]) -> str:
    names: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for symbol in symbols:
        names[symbol.version].append(symbol.name)
    return "".join(
        f"GLIBC_{'.'.join(map(str, version))} {{ global: {'; '.join(names[version])}; }};\n"
        for version in sorted(names)
    )


def library_path(compiler: str, name: str) -> Path:
    command = [compiler, f"-print-file-name={name}"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def link(compiler: str, out: Path, name: str, symbols: list[Symbol]) -> None:
    source, script = out / f"{name}.s", out / f"{name}.map"
    source.write_text(assembler(symbols))
    script.write_text(version_script(symbols))
    command = [compiler, "-shared", "-nostdlib", f"-Wl,-soname,{name}"]
    command += [f"-Wl,--version-script={script}"] if symbols else []
    subprocess.run([*command, "-o", str(out / name), str(source)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--limit", required=True, help="the newest version, such as 2.27")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in EMPTY:
        link(options.compiler, options.out, name, [])
    for name in FULL:
        command = ["readelf", "--dyn-syms", "-W", str(library_path(options.compiler, name))]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        link(options.compiler, options.out, name, symbols_of(listing, number(options.limit)))


if __name__ == "__main__":
    main()
