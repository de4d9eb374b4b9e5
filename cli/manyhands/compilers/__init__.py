# SPDX-License-Identifier: BSD-3-Clause
"""The wrapper compilers `mhcc`, `mhc++` and `mhfort`, which add `ws` directives to a compiler.

* main.py has the three commands.
* options.py takes the command line apart, find.py chooses the compiler, drive.py runs it.
* directives.py reads a directive.
* clike.py and fortran.py replace directives by OpenMP in a preprocessed source.
* macros.py expands the macros of a C directive.
* linking.py completes the command of a link.

A build calls these programs thousands of times, so they import little, and only from the standard
library. `Refused` reports errors in directives; the compiler reports all others.
"""
