# SPDX-License-Identifier: BSD-3-Clause
"""The wrapper compilers `mhcc`, `mhc++` and `mhfort`, which add `ws` directives to a compiler.

main.py is the three commands. options.py takes the command line apart, find.py says which compiler
is driven, drive.py runs it, names.py says which files are written besides. directives.py reads one
directive; clike.py and fortran.py put OpenMP in its place in a preprocessed source, macros.py
expands the macros a C directive names; linking.py says what a link has to have besides.

A build calls these programs thousands of times, so they import little, and only from the standard
library. `Refused` reports errors in directives; the compiler reports all others.
"""
