# SPDX-License-Identifier: Apache-2.0
"""Amounts for people: two numbers that differ are shown so that they do (C2: GB are 10^9 bytes, compared in bytes)."""

from __future__ import annotations

_GB = 10**9
_MOST_DIGITS = 3


def told_apart(has: float, needs: float, unit: float = _GB, *, digits: int = 0) -> tuple[str, str]:
    """Both in units of `unit`, with as few decimals, from `digits` on, as show that one is less than the other."""
    counts = range(digits, _MOST_DIGITS + 1)
    written = ((f"{has / unit:.{count}f}", f"{needs / unit:.{count}f}") for count in counts)
    different = next((pair for pair in written if pair[0] != pair[1]), None)
    return different or (f"{has / unit:.9f}", f"{needs / unit:.9f}")
