# SPDX-License-Identifier: Apache-2.0
"""The place of a replica that stays: the devices and ports of its units, joined by what they were started with (P8).

What joined its members is read from its units and not from the fleet as it is now: a port that is down for a moment or
a topology that nobody could read must not change what an engine is started with, or it would restart (P1b).
"""

from __future__ import annotations

from llmgw.engines.members import ports_needed
from llmgw.model.ids import DeviceId
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.nodekit import contract, unitfile
from llmgw.placement.board import Board
from llmgw.placement.groups import joined
from llmgw.placement.instances import Instance, Part
from llmgw.placement.ledger import Ledger
from llmgw.placement.port_rows import ports_held

_SECTION = f"\n[{unitfile.SECTION}]\n"
"""What units end with; reading all of every unit costs ten times as much."""


def kept(service: ServiceSpec, instance: Instance, profile: ProfileSpec, board: Board) -> Assignment:
    """The assignment of an instance to the nodes and devices where it is. What does not run and is started again, and
    units whose text is not known, are joined as the fleet is now.
    """
    needed = ports_needed(profile) if instance.settled else 1  # what is left alone restarts nowhere else
    members = tuple(_member(part, needed, board) for part in instance.parts)
    if not instance.working or any(part.unit.text is None for part in instance.parts):
        members = joined(board, members)
    return Assignment(instance.replica, service, profile, members, kept=True, partial=instance.missing is not None)


def _member(part: Part, needed: int, board: Board) -> Member:
    unit, ledger = part.unit, board.ledgers[part.node.name]
    text = unit.text or ""
    written = unitfile.parse(text[text.rfind(_SECTION) :] if _SECTION in text else text)
    return Member(
        rank=part.rank,
        node=part.node.name,
        devices=tuple(map(DeviceId, unit.devices)),
        port=_port(unit, needed, ledger, board),
        hcas=written.hcas,
        socket_interface=written.socket_interface,
        numa_node=board.numa_node(ledger, unit.devices) if unit.text is None else written.numa_node,
        domain=written.domain,
        fabric=written.fabric,
    )


def _port(unit: contract.ObservedUnit, needed: int, ledger: Ledger, board: Board) -> int:
    """The port that a unit has, unless `needed` ports in a row from there would take one of somebody else's."""
    if unit.port is not None and ledger.row_is_its_own(unit.port, ports_held(unit, board.catalog), needed):
        return unit.port
    return ledger.free_port(needed) or unit.port or 0
