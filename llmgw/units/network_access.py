# SPDX-License-Identifier: Apache-2.0
"""From where a system unit may be reached, and what it may reach itself: engines leave routes open that no key guards
(domain.md A7), and the kernel can keep strangers from them.

The kernel knows addresses and no names: where one of those that must be let in is a name, nobody is kept out, for a
filter that lacks a gateway or a peer is an outage. The unit says so.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from llmgw.model.node import Node
from llmgw.model.placement import Member
from llmgw.units import quoting
from llmgw.units.member_unit import MemberUnit


def network_access(unit: MemberUnit) -> list[str]:
    """Lines of [Service]; none where the catalog lets anyone reach it, a comment where it cannot be kept to."""
    if unit.access is None:
        return []
    if not unit.system:
        return [_not_kept("a user's manager cannot filter packets")]
    known: set[str] = set()
    for address in (*unit.access, *(one for member in unit.assignment.members for one in _addresses(unit, member))):
        network = _network(address)
        if network is None:
            return [_not_kept(f"{quoting.line(address)} is no address, and the kernel knows no other names")]
        known.add(network)
    return ["IPAddressDeny=any", f"IPAddressAllow={' '.join(('localhost', *_sorted(known)))}"]


def _not_kept(why: str) -> str:
    return f"# Anyone may reach this engine, whatever engines_reachable_from says: {why}."


def _addresses(unit: MemberUnit, member: Member) -> list[str]:
    """By what others reach a member: its node's address, and those of the interface that NCCL was given, or its name
    where they are not known.
    """
    node = unit.nodes[member.node]
    interface = node.settings.socket_interface
    return [node.address] if interface is None else [node.address, *_of_interface(node, interface)]


def _of_interface(node: Node, name: str) -> tuple[str, ...]:
    system = node.facts.system if node.facts is not None else None
    interfaces = system.interfaces if system is not None else None
    return next((one.addresses for one in interfaces or () if one.name == name), (name,))


def _network(text: str) -> str | None:
    """An address or a network as systemd reads it; None for a name."""
    try:
        network = ipaddress.ip_network(text.partition("%")[0], strict=False)
    except ValueError:
        return None
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def _sorted(networks: set[str]) -> Iterator[str]:
    def key(text: str) -> tuple[int, bytes, str]:
        network = ipaddress.ip_network(text)
        return network.version, network.network_address.packed, text

    return iter(sorted(networks, key=key))
