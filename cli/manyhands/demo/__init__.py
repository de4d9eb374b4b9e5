# SPDX-License-Identifier: BSD-3-Clause
"""The parts of `mh demo`: the stencil of examples/stencil, plain and helped in turn.

A *case* is a way to run the stencil (problem.py). An *arm* is plain or helped. A *round* is a run
of every arm of a case. A *finding* is the result of a case's rounds (findings.py).
"""
