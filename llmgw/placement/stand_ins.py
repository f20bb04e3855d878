# SPDX-License-Identifier: Apache-2.0
"""Places for stand-ins: extra replicas that serve while others of their service are replaced (R4)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from llmgw.model.ids import DeviceId, NodeName, ReplicaId, ServiceName
from llmgw.model.placement import Assignment
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.placement.board import Board
from llmgw.placement.instances import Instance
from llmgw.placement.keep import kept

Held = Container[tuple[NodeName, DeviceId]]


class StandIns:
    """Finds places that nobody is promised, one after another; nothing moves for them, and no spread counts."""

    def __init__(self, board: Board, held: Held) -> None:
        """`held`: devices that a process still has when a stand-in starts, whoever gets them later."""
        self._board = board
        self._held = held
        self._taken: list[Assignment] = []
        self._staying: list[Assignment] = []

    def find(self, service: ServiceSpec, replicas: Iterable[ReplicaId]) -> tuple[Assignment, ...]:
        """The stand-ins of a service that have a place, under these ids and in their order; fewer where there is no
        more room.
        """
        guest = _guest(service)
        found = []
        for replica in replicas:
            place = self._place(guest, replica)
            if place is None:
                break
            self._board.take(place)
            self._taken.append(place)
            found.append(replace(place, service=service))
        return tuple(found)

    def stay(self, service: ServiceSpec, instance: Instance) -> bool:
        """Let a surplus replica keep what it has for as long as this plan is carried out, if nobody is promised it."""
        guest = _guest(service)
        memory = max(part.unit.memory_min_bytes or 0 for part in instance.parts)
        for part in instance.parts:
            left = self._board.ledgers[part.node.name].unpromised_memory()
            if left is not None and left < (part.unit.memory_min_bytes or 0):
                return False
        place = kept(guest, instance, replace(service.profiles[0], min_memory_bytes=memory), self._board)
        self._board.take(place)
        self._staying.append(place)
        return True

    def leave(self, replicas: Container[ReplicaId] | None = None) -> None:
        """Give the places of these stand-ins back, or all: they are gone once the plan is carried out."""
        for place in [one for one in self._taken if replicas is None or one.replica in replicas]:
            self._board.give_back(place)
            self._taken.remove(place)
        while replicas is None and self._staying:
            self._board.give_back(self._staying.pop())

    def _place(self, guest: ServiceSpec, replica: ReplicaId) -> Assignment | None:
        for profile in guest.profiles:
            passed_over = self._without_weights(guest, profile)
            while (place := self._board.find(guest, profile, replica, outside=passed_over)) is not None:
                busy = [member.node for member in place.members if self._is_busy(member.node, member.devices)]
                if not busy:
                    return place
                passed_over.update(busy)
        return None

    def _without_weights(self, guest: ServiceSpec, profile: ProfileSpec) -> set[NodeName]:
        """The nodes that are not known to have the weights, where others are: what serves for a while is not worth a
        copy of them, and a start without them would end a rollout that goes well in place.
        """
        holders = self._board.ask(guest, profile).holders
        return {name for name in self._board.ledgers if name not in holders} if holders else set()

    def _is_busy(self, node: NodeName, devices: Sequence[DeviceId]) -> bool:
        return any((node, device) in self._held for device in devices)


def _guest(service: ServiceSpec) -> ServiceSpec:
    """The service under a name of its own, so that its stand-ins are in nobody's share of a spread."""
    return replace(service, name=ServiceName(f"{service.name} (stand-in)"), spread=None)
