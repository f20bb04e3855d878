# SPDX-License-Identifier: Apache-2.0
"""Exit statuses of every command; where several hold, the one further up is reported."""

from __future__ import annotations

INTERRUPTED = 130
USAGE = 64
ERROR = 1
PARTIAL = 4
"""An apply stopped after a step failed: what it touched was put back, later waves were not begun."""
UNPLACED = 3
"""Some replica cannot be placed, or some service cannot be rolled out."""
CHANGES = 2
"""There are changes; only with --detailed-exitcode."""
OK = 0
