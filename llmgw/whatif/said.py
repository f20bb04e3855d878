# SPDX-License-Identifier: Apache-2.0
"""What a supposition tells of itself, so that nobody takes its assumptions for facts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Said:
    """What was supposed, and what had to be assumed for it; both as they stand in a sentence's place."""

    what: str
    assumed: tuple[str, ...] = ()
