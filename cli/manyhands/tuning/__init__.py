# SPDX-License-Identifier: BSD-3-Clause
"""What `mh tune` is made of: the decisions and the tune file."""
