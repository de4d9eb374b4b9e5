# SPDX-License-Identifier: BSD-3-Clause
"""Unix behaviour that `mh` and the wrapper compilers share.

streams.py handles standard streams that are closed, full or a pipe without a reader. endings.py
handles signals that end a command. Both import few modules, and only from the standard library.
"""

__version__ = "0.1.0"
