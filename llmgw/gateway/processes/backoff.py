# SPDX-License-Identifier: Apache-2.0
"""How long to wait before a process that ended is started again. Pure: times are arguments, in seconds."""

from __future__ import annotations

FIRST_S = 0.5
LONGEST_S = 30.0
SETTLED_S = 60.0
"""A process that lived this long had started well."""


class Backoff:
    """The waits of one process: none after the first end, then each twice the one before."""

    __slots__ = ("ends",)

    def __init__(self) -> None:
        self.ends = 0
        """How often in a row it ended early."""

    def ended(self, lived_s: float) -> float:
        """Seconds to wait, after it lived for `lived_s`."""
        if lived_s >= SETTLED_S:
            self.ends = 0
        self.ends += 1
        if self.ends == 1:
            return 0.0
        return min(LONGEST_S, FIRST_S * 2.0 ** min(self.ends - 2, 16))
