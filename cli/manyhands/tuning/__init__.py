# SPDX-License-Identifier: BSD-3-Clause
"""The parts of `mh tune`: the decisions and the tune file."""
