# SPDX-License-Identifier: BSD-3-Clause
"""The wrapper compilers `mhcc`, `mhc++` and `mhfort`, which add `ws` directives to a compiler.

The commands are in main.py. The command line is taken apart by options.py, find.py chooses the
compiler, and drive.py runs it. The names of the files that the compiler would write come from
names.py. A directive is read by directives.py. In a preprocessed source clike.py and fortran.py
replace the directives, and macros.py expands the macros in them. Additions to a link are in
linking.py.

A build calls these programs thousands of times, so they import little, and only from the standard
library. `Refused` reports errors in directives; the compiler reports all others.
"""
