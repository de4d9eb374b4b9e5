# SPDX-License-Identifier: BSD-3-Clause
"""The wrapper compilers `mhcc`, `mhc++` and `mhfort`, which add `ws` directives to a compiler.

* main.py: the commands. options.py takes their command lines apart.
* find.py: the choice of the compiler. drive.py runs the compiler.
* names.py: the names of the files that the compiler would write.
* directives.py: reads a directive. clike.py and fortran.py replace the directives of a preprocessed
  source, and macros.py expands the macros in directives.
* linking.py: additions to a link.

A build calls these programs thousands of times, so they import few modules, and only from the
standard library. The wrapper reports errors in directives (`Refused`); the compiler reports all
others.
"""
