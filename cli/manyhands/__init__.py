# SPDX-License-Identifier: BSD-3-Clause
"""The command line of Manyhands: the program `mh`.

main.py gathers the commands, commands/ holds one module for each, and the modules beside this file
are what commands share. Nothing here is loaded into an MPI program; that is libmanyhands.so alone.
"""

from manyhands_unix import __version__ as __version__
