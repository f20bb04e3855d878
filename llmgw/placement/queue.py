# SPDX-License-Identifier: Apache-2.0
"""In which order replicas are placed: what the catalog holds dearer first, then what served before, then what is
hardest to place, so that small replicas fill what large ones leave (P10).
"""

from __future__ import annotations

from collections.abc import Iterable

from llmgw.model.ids import ReplicaId
from llmgw.model.replica import ServiceSpec
from llmgw.placement.board import Board

Wanted = tuple[ServiceSpec, int]
_Key = tuple[int, bool, int, int, int, int, str, int]


class Queue:
    """Replicas that wait for a place. What is added while others are placed takes its turn."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._hardness: dict[str, tuple[int, int, int, int]] = {}
        self._waiting: list[tuple[_Key, Wanted]] = []

    def add(self, wanted: Iterable[Wanted], displaced: Iterable[ReplicaId]) -> None:
        """Let replicas wait; those that served until now (`displaced`) come before new ones of their priority."""
        served = set(displaced)
        for service, number in wanted:
            new = f"{service.name}/{number}" not in served
            key = (-service.priority, new, *self._hard(service), service.name, number)
            self._waiting.append((key, (service, number)))
        self._waiting.sort(key=lambda one: one[0], reverse=True)

    def next(self) -> Wanted | None:
        """The replica whose turn it is; None when none waits."""
        return self._waiting.pop()[1] if self._waiting else None

    def _hard(self, service: ServiceSpec) -> tuple[int, int, int, int]:
        """Smaller for what is harder to place: more members, more devices a member, fewer nodes that could take it,
        more host memory.
        """
        known = self._hardness.get(service.name)
        if known is None:
            profiles = service.profiles
            able = {name for one in profiles for name in self._board.eligible(service, one)}
            known = self._hardness[service.name] = (
                -max(one.nodes for one in profiles),
                -max(one.gpus for one in profiles),
                len(able),
                -max(one.min_memory_bytes or 0 for one in profiles),
            )
        return known
