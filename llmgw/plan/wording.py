# SPDX-License-Identifier: Apache-2.0
"""Numbers and lists of names as sentences have them: `1 replica`, `n1, n2 and 3 more`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

NAMES_SHOWN = 8


def some(names: Sequence[str]) -> str:
    """The names, the first eight of very many."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def count(things: Collection[object], noun: str) -> str:
    """`3 units`, for so many things."""
    return number(len(things), noun)


def number(amount: int, noun: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{amount} {noun}{'' if amount == 1 else 's'}"
