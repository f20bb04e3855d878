# SPDX-License-Identifier: Apache-2.0
"""Whether and where a request is tried once more, before its client has heard anything (G6). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from llmgw.model.route import Endpoint

MOST_ATTEMPTS = 3
TRIED_ELSEWHERE = frozenset({429, 502, 503, 504})
"""Answers that say that this engine cannot now. Whoever gets one asks another engine, where there is one."""


class Place(Protocol):
    """Somewhere to try."""

    @property
    def spec(self) -> Endpoint:
        """What the routes say of it."""


P = TypeVar("P", bound=Place)


def others(ready: Sequence[P], tried: Sequence[P]) -> tuple[P, ...]:
    """Where a request may go next that failed at all of `tried`: nowhere again, and to other nodes before theirs."""
    if len(tried) >= MOST_ATTEMPTS:
        return ()
    left = tuple(other for other in ready if other not in tried)
    nodes = {one.spec.node for one in tried}
    return tuple(other for other in left if other.spec.node not in nodes) or left
