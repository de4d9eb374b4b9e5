# SPDX-License-Identifier: BSD-3-Clause
"""What `mh` and the wrapper compilers share: they behave as tools of a Unix system.

streams.py is about standard streams that are closed, full or a pipe that nobody reads, endings.py
about signals that end a command. Both import the standard library only, and little of it.
"""

__version__ = "0.1.0"
