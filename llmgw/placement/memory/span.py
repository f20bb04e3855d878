# SPDX-License-Identifier: Apache-2.0
"""An amount that is known within bounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """`low` is surely needed, `likely` is planned with, `high` is not expected to be exceeded: they never fall."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def __mul__(self, factor: float) -> Span:
        return Span(self.low * factor, self.likely * factor, self.high * factor)


def exactly(amount: float) -> Span:
    """An amount without doubt."""
    return Span(amount, amount, amount)
