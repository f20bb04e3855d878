# SPDX-License-Identifier: Apache-2.0
"""Places for stand-ins: extra replicas that serve while others of their service are replaced (R4)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from llmgw.model.ids import DeviceId, NodeName, ReplicaId, ServiceName
from llmgw.model.placement import Assignment
from llmgw.model.replica import ServiceSpec
from llmgw.placement.board import Board

Held = Container[tuple[NodeName, DeviceId]]


class StandIns:
    """Finds places that nobody is promised, one after another; nothing moves for them, and no spread counts."""

    def __init__(self, board: Board, held: Held) -> None:
        """`held`: devices that a process still has when a stand-in starts, whoever gets them later."""
        self._board = board
        self._held = held
        self._taken: list[Assignment] = []

    def find(self, service: ServiceSpec, replicas: Iterable[ReplicaId]) -> tuple[Assignment, ...]:
        """The stand-ins of a service that have a place, under these ids and in their order; fewer where there is no
        more room.
        """
        # Under a name of its own it is in nobody's share of a spread.
        guest = replace(service, name=ServiceName(f"{service.name} (stand-in)"), spread=None)
        found = []
        for replica in replicas:
            place = self._place(guest, replica)
            if place is None:
                break
            self._board.take(place)
            self._taken.append(place)
            found.append(replace(place, service=service))
        return tuple(found)

    def leave(self, last: int | None = None) -> None:
        """Give the last so many places back, or all: the stand-ins are gone once the plan is carried out."""
        for _ in range(len(self._taken) if last is None else last):
            self._board.give_back(self._taken.pop())

    def _place(self, guest: ServiceSpec, replica: ReplicaId) -> Assignment | None:
        for profile in guest.profiles:
            passed_over: set[NodeName] = set()
            while (place := self._board.find(guest, profile, replica, outside=passed_over)) is not None:
                busy = [member.node for member in place.members if self._is_busy(member.node, member.devices)]
                if not busy:
                    return place
                passed_over.update(busy)
        return None

    def _is_busy(self, node: NodeName, devices: Sequence[DeviceId]) -> bool:
        return any((node, device) in self._held for device in devices)
