# SPDX-License-Identifier: BSD-3-Clause
"""The command line of Manyhands: the program `mh`.

main.py gathers the commands, commands/ holds a module for each command, and the modules beside this
file hold the code that commands share. MPI programs load libmanyhands.so and nothing of this
package.
"""

from manyhands_unix import __version__ as __version__
