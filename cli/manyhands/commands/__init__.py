# SPDX-License-Identifier: BSD-3-Clause
"""A module for each command of `mh`.

A module has a function `register(app)` that adds its command to the Typer application. `mh --help`
imports all modules, so modules import heavy packages inside their functions.
"""
