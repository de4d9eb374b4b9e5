# SPDX-License-Identifier: BSD-3-Clause
"""What `mh demo` is made of: the stencil of examples/stencil, plain and helped in turn.

Words: a *case* is a way to run the stencil (problem.py); an *arm* is plain or helped; a *round*
is one run of every arm of a case; a *finding* is what the rounds of a case add up to (findings.py).
"""
