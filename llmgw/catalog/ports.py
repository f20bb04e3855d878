# SPDX-License-Identifier: Apache-2.0
"""Port ranges as the catalog writes them."""

from __future__ import annotations


def ports(text: str) -> tuple[int, int]:
    """First and last port of `18000-18999`."""
    first, _, last = text.partition("-")
    return int(first), int(last)
