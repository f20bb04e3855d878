# SPDX-License-Identifier: Apache-2.0
"""Values that nobody needs to choose: identities and readings, made from names, and so the same every time."""

from __future__ import annotations

import hashlib
import uuid

NOW = 1_795_510_800.0
"""The moment at which the fleet is looked at: 2026-11-24 09:00 UTC."""
GB = 10**9
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def between(low: int, high: int, *names: object) -> int:
    """A number from low to high, both included."""
    return low + _number(names) % (high - low + 1)


def identity(*names: object) -> str:
    """A UUID as drivers and kernels write it."""
    return str(uuid.UUID(int=_number(names) % (1 << 128), version=4))


def commit(*names: object) -> str:
    """Forty digits."""
    return hashlib.sha1(_text(names), usedforsecurity=False).hexdigest()


def _number(names: tuple[object, ...]) -> int:
    return int.from_bytes(hashlib.sha256(_text(names)).digest()[:20])


def _text(names: tuple[object, ...]) -> bytes:
    return "/".join(map(str, names)).encode()
