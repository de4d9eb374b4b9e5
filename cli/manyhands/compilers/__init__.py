# SPDX-License-Identifier: BSD-3-Clause
"""The wrapper compilers `mhcc`, `mhc++` and `mhfort`: they make a compiler understand `ws`
directives.

main.py is the three commands. options.py takes the command line apart, find.py says which compiler
is driven, drive.py runs it. directives.py reads one directive; clike.py and fortran.py put OpenMP
in its place in a preprocessed source, macros.py expands the macros a C directive names; linking.py
says what a link has to have besides.

A build calls these programs thousands of times: they import the standard library only, and little
of it. What is wrong with a directive is said by `Refused`; everything else is said by the compiler.
"""
