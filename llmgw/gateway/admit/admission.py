# SPDX-License-Identifier: Apache-2.0
"""Who may be asked now: limits per service and key, and the two budgets of the whole gateway (G5, G6). Pure."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from llmgw.gateway.wire.refusal import KEY_BUSY, SERVICE_BUSY, Refusal

RETRY_SHARE = 0.1
"""Retries allowed per request."""
RETRY_BURST = 10.0
"""Retries that may come at once after a quiet time."""


class Full(Enum):
    """What a request finds that may not enter now, where others wait for their turn."""

    WAIT = "wait"
    """It may wait too."""
    QUEUE = "queue"
    """So many wait that it may not."""


class Limited(Protocol):
    """Something with a limit on the requests in flight; None: no limit."""

    @property
    def in_flight(self) -> int:
        """Requests in flight."""

    @property
    def max_concurrency(self) -> int | None:
        """How many there may be."""


class Waiting(Protocol):
    """Those who wait for a service."""

    def __len__(self) -> int:
        """How many."""

    def has_room(self, priority: int, key_name: str) -> bool:
        """Whether one more of that key may wait."""


def busy(
    service: Limited, key: Limited | None, line: Waiting | None = None, *, priority: int = 0, key_name: str = ""
) -> Refusal | Full | None:
    """Why one more request may not enter now, or None. All limits are asked before anything is counted.

    A key's limit holds for those who wait too: it is never a reason to wait. `line`: None where none may wait. Where
    somebody waits, a newcomer does not pass by him.
    """
    if key is not None and key.max_concurrency is not None and key.in_flight >= key.max_concurrency:
        return KEY_BUSY
    full = service.max_concurrency is not None and service.in_flight >= service.max_concurrency
    if line is None:
        return SERVICE_BUSY if full else None
    if full or len(line):
        return Full.WAIT if line.has_room(priority, key_name) else Full.QUEUE
    return None


class ByteBudget:
    """Bytes of request bodies that are held at once, over all requests."""

    __slots__ = ("total", "used")

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0

    def take(self, size: int) -> bool:
        """Whether `size` more bytes fit; they count as held then."""
        if self.used + size > self.total:
            return False
        self.used += size
        return True

    def give(self, size: int) -> None:
        """Those bytes are held no more."""
        self.used -= size


class RetryBudget:
    """A tenth of the requests may be retried, so that a failing fleet is not asked many times over."""

    __slots__ = ("_tokens",)

    def __init__(self) -> None:
        self._tokens = RETRY_BURST

    def earn(self) -> None:
        """One more request came."""
        if self._tokens < RETRY_BURST:
            self._tokens += RETRY_SHARE

    def spend(self) -> bool:
        """Whether one more retry is allowed; it is counted then."""
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
