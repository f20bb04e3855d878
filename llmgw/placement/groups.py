# SPDX-License-Identifier: Apache-2.0
"""Replicas of several nodes: which members of which pool they get (P5). Members have equally many devices of one class
and engines of one version; any free devices of a node may serve, not only whole nodes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from llmgw.engines.members import ports_needed
from llmgw.fleet.socket_interfaces import socket_interface
from llmgw.model.ids import DeviceClass, NodeName, ReplicaId
from llmgw.model.node import Device, Node
from llmgw.model.placement import Assignment, Member, Rejection, ScoreTerm
from llmgw.placement import topology
from llmgw.placement.feasibility import Ask, has_free
from llmgw.placement.ledger import Ledger
from llmgw.placement.pools import Pool, PoolKind, common_fabric, confirmed_ports, why_alone
from llmgw.placement.score import score

if TYPE_CHECKING:
    from llmgw.placement.board import Board


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of one pool with room for one member each, the best first; there may be more than a replica needs."""

    pool: Pool
    device_class: DeviceClass
    version: str | None
    ledgers: tuple[Ledger, ...]
    worth: float
    """Mean score of those that a replica would use."""


def find(
    board: Board, ask: Ask, replica: ReplicaId, outside: Container[NodeName], home: Container[NodeName]
) -> Assignment | None:
    """The best place of a replica of several members, nothing taken; None when there is none.

    The earlier device class wins, then domain before fabric, then where it came from, then the mean score of its nodes,
    then the pool with the fewest other nodes free.
    """
    classes = ask.profile.devices
    groups = [one for one in groups_of(board, ask, outside, home) if len(one.ledgers) >= ask.profile.nodes]
    if not groups:
        return None

    def place(group: Group) -> tuple[int, int, int, float, int, str, str]:
        chosen = group.ledgers[: ask.profile.nodes]
        away = sum(ledger.node.name not in home for ledger in chosen)
        size, name = len(group.ledgers), f"{group.pool.name} {sorted(group.pool.rails)}"
        return classes.index(group.device_class), group.pool.kind, away, -group.worth, size, name, group.version or ""

    best = min(groups, key=place)
    return _assigned(board, ask, replica, best)


def groups_of(
    board: Board, ask: Ask, outside: Container[NodeName] = (), home: Container[NodeName] = ()
) -> Iterator[Group]:
    """For every pool, class and engine version the nodes that have room for one member now."""
    eligible = board.eligible(ask.service, ask.profile)
    for pool in board.pools:
        there = [eligible[name] for name in pool.nodes if name in eligible and name not in outside]
        there = [ledger for ledger in there if board.takes(ask, ledger)]
        for device_class in ask.profile.devices:
            by_version: dict[str | None, list[tuple[bool, float, NodeName, Ledger]]] = {}
            for ledger in there:
                if has_free(ask, ledger, device_class):
                    rank = board.rank(ask, ledger, device_class) or 0.0
                    name = ledger.node.name
                    version = _version(ask, ledger.node)
                    by_version.setdefault(version, []).append((name not in home, -rank, name, ledger))
            for version, found in by_version.items():
                found.sort(key=lambda one: one[:3])
                used = found[: ask.profile.nodes]
                worth = round(sum(-one[1] for one in used) / len(used), 9)
                yield Group(pool, device_class, version, tuple(one[3] for one in found), worth)


def _version(ask: Ask, node: Node) -> str | None:
    """The version of the engine on a node: ranks of two versions do not speak to one another."""
    engines = (node.facts.engines or ()) if node.facts else ()
    return next((one.version for one in engines if one.kind == ask.profile.engine), None)


def _assigned(board: Board, ask: Ask, replica: ReplicaId, group: Group) -> Assignment | None:
    ledgers = sorted(group.ledgers[: ask.profile.nodes], key=lambda ledger: ledger.node.name)
    fabric = _fabric_of(group.pool, [ledger.node for ledger in ledgers])
    members: list[Member] = []
    terms: tuple[ScoreTerm, ...] = ()
    for rank, ledger in enumerate(ledgers):
        near = _near(ledger.node, fabric)
        spot, port = (
            board.spot(ask, ledger, group.device_class, near),
            ledger.free_port(ports_needed(ask.profile)),
        )
        if spot is None or port is None:
            return None
        members.append(_joined(ledger.node, board.member(ledger, spot, port, rank), group.pool, fabric))
        if not rank:
            terms = score(ask, ledger, spot, domain_whole=board.domain_whole(ledger.node.name))
    return Assignment(replica, ask.service, ask.profile, tuple(members), score=terms)


def joined(board: Board, members: tuple[Member, ...]) -> tuple[Member, ...]:
    """Members with what joins them as the fleet is now; as they are when nothing does."""
    names = {member.node for member in members}
    pool = next((pool for pool in board.pools if names <= set(pool.nodes)), None)
    if pool is None or len(members) == 1:
        return members
    nodes = {member.node: board.ledgers[member.node].node for member in members}
    fabric = _fabric_of(pool, list(nodes.values()))
    return tuple(_joined(nodes[member.node], member, pool, fabric) for member in members)


def _fabric_of(pool: Pool, nodes: list[Node]) -> str | None:
    return pool.name if pool.kind is PoolKind.FABRIC else common_fabric(nodes)


def _joined(node: Node, member: Member, pool: Pool, fabric: str | None) -> Member:
    return replace(
        member,
        hcas=_hcas(node, fabric, member),
        socket_interface=socket_interface(node),
        domain=pool.name if pool.kind is PoolKind.DOMAIN else None,
        fabric=fabric,
    )


def _near(node: Node, fabric: str | None) -> tuple[int, ...] | None:
    if fabric is None:
        return None
    adapters = {port.device for port in confirmed_ports(node, fabric)}
    return tuple(topology.distance(device, adapters) for device in node.devices or ())


def _hcas(node: Node, fabric: str | None, member: Member) -> tuple[str, ...]:
    """Exactly the confirmed ports of the shared fabric, those nearest to the member's devices first."""
    if fabric is None:
        return ()
    chosen = [device for device in node.devices or () if device.uuid in member.devices]
    ports = confirmed_ports(node, fabric)
    return tuple(port.name for port in sorted(ports, key=lambda port: (_steps(chosen, port.device), port.name)))


def _steps(devices: list[Device], adapter: str) -> int:
    return min((topology.distance(device, (adapter,)) for device in devices), default=topology.UNKNOWN_DISTANCE)


def rejections(board: Board, ask: Ask, node: Node, *, fits_alone: bool) -> Iterator[Rejection]:
    """Why a node that may have room for a member is no part of a replica: nothing joins it with others, or too few of
    them have room. Nothing for a node that has room beside enough others.
    """
    service, profile = ask.service.name, ask.profile.name
    pools = [pool for pool in board.pools if node.name in pool.nodes]
    if not pools:
        yield Rejection(service, profile, node.name, "fabric", f"{node.name} {why_alone(node)}")
        return
    room = {id(pool): 0 for pool in pools}
    for group in _groups_now(board, ask):
        if id(group.pool) in room:
            room[id(group.pool)] = max(room[id(group.pool)], len(group.ledgers))
    best = max(pools, key=lambda pool: (room[id(pool)], -pool.kind))
    if room[id(best)] < ask.profile.nodes and (fits_alone or not room[id(best)]):
        has = room[id(best)]
        message = f"{best} has {has} of {len(best.nodes)} nodes with room for a member, needs {ask.profile.nodes}"
        yield Rejection(service, profile, node.name, "partners", message, has, ask.profile.nodes, "nodes")


def _groups_now(board: Board, ask: Ask) -> list[Group]:
    """The groups as things stand: found once for all nodes that are asked about between two promises."""
    known = ask.groups.get(board.version)
    if known is None:
        ask.groups.clear()
        known = ask.groups[board.version] = list(groups_of(board, ask))
    return known
