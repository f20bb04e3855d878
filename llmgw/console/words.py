# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them. What is not known is `-` everywhere, never 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN = "-"
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def gigabytes(size: int | None) -> str:
    """`8 GB`; a GB is 10^9 bytes, and only the shown number is rounded (C2)."""
    return UNKNOWN if size is None else f"{size / 1e9:.0f} GB"


def ago(moment: float | None, now: float) -> str:
    """`3 min`: how long before `now` that was, in its largest unit. Both are seconds of Unix time."""
    if moment is None:
        return UNKNOWN
    seconds = max(0, int(now - moment))
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{seconds // size} {unit}"


def device_counts(devices: Sequence[Mapping[str, Any]] | None) -> str:
    """`2 h200-141g, 1 l40s-45g`: devices by class (V1); `none` where it is known that there are none."""
    if devices is None:
        return UNKNOWN
    counts = Counter(device["device_class"] or "unknown class" for device in devices)
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"
