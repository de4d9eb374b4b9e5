# SPDX-License-Identifier: BSD-3-Clause
"""The command line of Manyhands: the program `mh`.

main.py gathers the commands, commands/ holds one module for each, and the modules beside this file
are what commands share. Nothing here is loaded into an MPI program; that is libmanyhands.so alone.
"""

__version__ = "0.1.0"
