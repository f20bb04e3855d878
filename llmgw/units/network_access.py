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
from llmgw.units import quoting
from llmgw.units.member_unit import MemberUnit

_ALLOW = "IPAddressAllow="
_LOCAL = "localhost"
_IPV4 = 4


def network_access(unit: MemberUnit) -> list[str]:
    """Lines of [Service]; none where the catalog lets anyone reach it, a comment where it cannot be kept to.

    While the addresses of an interface are not known, whoever the unit lets in already is let in on (D18): neither does
    it open to everybody, nor are members cut off from one another.
    """
    if unit.access is None:
        return []
    if not unit.system:
        return [_not_kept("a user's manager cannot filter packets")]
    known: set[str] = set()
    for text in (*unit.access, *(unit.nodes[member.node].address for member in unit.assignment.members)):
        network = _network(text)
        if network is None:
            return [_not_kept(f"{quoting.line(text)} is no address, and the kernel knows no other names")]
        known.add(network)
    of_interfaces = [_of_interface(unit.nodes[member.node]) for member in unit.assignment.members]
    if None in of_interfaces:
        before = _before(unit)
        if not before:
            return [_not_kept("the addresses of llmgw_socket_interface are not known")]
        known |= before
    known.update(one for found in of_interfaces for one in found or ())
    return ["IPAddressDeny=any", f"{_ALLOW}{' '.join((_LOCAL, *_sorted(known)))}"]


def _not_kept(why: str) -> str:
    return f"# Anyone may reach this engine, whatever engines_reachable_from says: {why}."


def _before(unit: MemberUnit) -> set[str]:
    """Whom the unit lets in already, without the machine itself."""
    found = next((one for one in unit.text_before.split("\n") if one.startswith(_ALLOW)), "")
    return {one for one in map(_network, found.removeprefix(_ALLOW).split()) if one is not None}


def _of_interface(node: Node) -> tuple[str, ...] | None:
    """The addresses of the interface that NCCL was given, besides its node's; None where they are not known.

    Facts name addresses and never networks. An interface with IPv4 is talked to by IPv4, unless its node has an IPv6
    address: those come and go by themselves.
    """
    name = node.settings.socket_interface
    if name is None:
        return ()
    system = node.facts.system if node.facts is not None else None
    interfaces = (system.interfaces if system is not None else None) or ()
    texts = next((one.addresses for one in interfaces if one.name == name), ())
    found = [one for one in map(_address, texts) if one is not None and not one.is_link_local]
    if not found:
        return None
    own = _address(node.address)
    if own is None or own.version == _IPV4:
        found = [one for one in found if one.version == _IPV4] or found
    return tuple(map(str, found))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


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
