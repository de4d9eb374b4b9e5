# SPDX-License-Identifier: BSD-3-Clause
"""One module for each command of `mh`.

A module takes part by having a function `register(app)` that adds its command to the Typer
application. Modules import what is heavy inside their functions: all are loaded at every start.
"""
