# SPDX-License-Identifier: Apache-2.0
"""The place of a replica that stays: the devices that its units have, joined by what they were started with (P8).

What joined its members is read from its units and not from the fleet as it is now: a port that is down for a moment or
a topology that nobody could read must not change what an engine is started with, or it would restart (P1b).
"""

from __future__ import annotations

from llmgw.model.ids import DeviceId
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.nodekit import unitfile
from llmgw.placement.board import Board
from llmgw.placement.groups import joined
from llmgw.placement.instances import Instance, Part

_SECTION = f"\n[{unitfile.SECTION}]\n"
"""What units end with; reading all of every unit costs ten times as much."""


def kept(service: ServiceSpec, instance: Instance, profile: ProfileSpec, board: Board) -> Assignment:
    """The assignment of an instance to the nodes and devices where it is. What does not run and is started again, and
    units whose text is not known, are joined as the fleet is now.
    """
    members = tuple(_member(part, board) for part in instance.parts)
    if not instance.working or any(part.unit.text is None for part in instance.parts):
        members = joined(board, members)
    return Assignment(instance.replica, service, profile, members, kept=True, partial=instance.missing is not None)


def _member(part: Part, board: Board) -> Member:
    unit, ledger = part.unit, board.ledgers[part.node.name]
    port = unit.port if unit.port is not None else ledger.free_port() or 0
    text = unit.text or ""
    written = unitfile.parse(text[text.rfind(_SECTION) :] if _SECTION in text else text)
    return Member(
        rank=part.rank,
        node=part.node.name,
        devices=tuple(map(DeviceId, unit.devices)),
        port=port,
        hcas=written.hcas,
        socket_interface=written.socket_interface,
        numa_node=board.numa_node(ledger, unit.devices) if unit.text is None else written.numa_node,
        domain=written.domain,
        fabric=written.fabric,
    )
