# SPDX-License-Identifier: Apache-2.0
"""What ports say about their subnets, and which ports that puts into one subnet (D9). Pure.

Ports are joined by proof alone: one lists the other among its subnet's ports, both have one subnet manager, or both
have a subnet prefix that somebody set. The default prefix, the manager's LID, names, rates and IP ranges join nothing:
they are equal in fabrics that have nothing to do with one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from llmgw.fleet.fabric_addresses import DEFAULT_PREFIX, gid, guids, pci_address, prefix_of, routable
from llmgw.nodekit import contract

_LIDS = range(1, 0xC000)
"""Addresses of single ports; what lies above is for many or for none."""
_FULL_MEMBER = 0x8000


@dataclass(frozen=True, slots=True)
class PortEvidence:
    """One port that an engine may use, with every address in one spelling. None or empty: not known."""

    node: str
    device: str
    port: int
    infiniband: bool
    pci_address: str | None = None
    netdevs: frozenset[str] = frozenset()
    port_guid: str | None = None
    prefix: str | None = None
    """Its subnet prefix, the default one too."""
    lid: int | None = None
    sm_lid: int | None = None
    sm_guids: frozenset[str] = frozenset()
    subnet_guids: tuple[str, ...] = ()
    """GUIDs of the ports that its subnet was seen to hold. Of a node's ports in one subnet the first has the list."""
    subnet_digest: str | None = None
    """The same list as a digest, on every one of them."""
    switch_guid: str | None = None
    partitions: frozenset[int] = frozenset()
    """Partitions in which it is a full member."""
    addresses: tuple[IPv4Address | IPv6Address, ...] = ()
    """IP addresses of a RoCE port."""

    @property
    def name(self) -> str:
        """`n1 mlx5_0:1`."""
        return f"{self.node} {self.device}:{self.port}"

    @property
    def own_prefix(self) -> str | None:
        """Its subnet prefix if somebody set one: the default says nothing."""
        return None if self.prefix == DEFAULT_PREFIX else self.prefix

    @property
    def knows_its_subnet(self) -> bool:
        """Whether its subnet was asked: what then joins it to no other port is no accident."""
        return bool(self.sm_guids or self.subnet_guids or self.subnet_digest)


def evidence_of(node: str, port: contract.RdmaPort) -> PortEvidence:
    """What one port says. An address that makes no sense counts as not known."""
    infiniband = is_infiniband(port)
    first = gid(port.gids[0]) if infiniband and port.gids else None
    gids = () if infiniband else filter(None, map(gid, port.gids))
    own_guid = guids((port.port_guid,) if port.port_guid else ())
    return PortEvidence(
        node=node,
        device=port.device,
        port=port.port,
        infiniband=infiniband,
        pci_address=_pci(port.pci_address),
        netdevs=frozenset(name for name in (port.netdev, *port.netdevs) if name),
        port_guid=own_guid[0] if own_guid else (f"0x{int(first) & 0xFFFFFFFFFFFFFFFF:016x}" if first else None),
        prefix=prefix_of(int(first)) if first and int(first) >> 64 else None,
        lid=_lid(port.lid) if infiniband else None,
        sm_lid=_lid(port.sm_lid) if infiniband else None,
        sm_guids=frozenset(guids(port.sm_guids or ())) if infiniband else frozenset(),
        subnet_guids=guids(port.subnet_port_guids or ()) if infiniband else (),
        subnet_digest=port.subnet_digest if infiniband and port.subnet_port_count else None,
        switch_guid=next(iter(guids((port.switch_guid,) if port.switch_guid else ())), None),
        partitions=frozenset(_full_memberships(port.pkeys)) if infiniband else frozenset(),
        addresses=tuple(dict.fromkeys(filter(None, map(routable, gids)))),
    )


def is_infiniband(port: contract.RdmaPort) -> bool:
    """Whether a port is native InfiniBand; facts of an older module tell it by the link layer alone."""
    return port.kind == "infiniband" if port.kind is not None else port.link_layer == "InfiniBand"


def _pci(text: str | None) -> str | None:
    try:
        return None if text is None else pci_address(text)
    except ValueError:
        return None


def _lid(value: int | None) -> int | None:
    return value if value in _LIDS else None


def _full_memberships(pkeys: Iterable[str]) -> Iterator[int]:
    for text in pkeys:
        try:
            key = int(text, 16)
        except ValueError:
            continue
        if key & _FULL_MEMBER:
            yield key & ~_FULL_MEMBER


class Subnets:
    """Which of some ports are proved to be in one subnet: `component[i] == component[j]` when i and j are."""

    def __init__(self, ports: Sequence[PortEvidence]) -> None:
        self._ports = ports
        self._parent = list(range(len(ports)))
        self._join_by_lists()
        self._join_alike(lambda port: (port.subnet_digest,) if port.subnet_digest else ())
        self._join_alike(lambda port: port.sm_guids)

    def component(self, index: int) -> int:
        """The port that stands for the subnet of this one."""
        parent = self._parent
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    def join(self, indexes: Sequence[int]) -> None:
        """These ports are in one subnet. The lowest index stands for it, so that the order of joining is nothing."""
        parent = self._parent
        one = self.component(indexes[0]) if indexes else 0
        for index in indexes:
            if parent[index] != one:
                lower, higher = sorted((one, self.component(index)))
                parent[higher] = parent[index] = lower
                one = lower

    def _join_by_lists(self) -> None:
        holders: dict[str, list[int]] = {}
        for index, port in enumerate(self._ports):
            if port.infiniband and port.port_guid is not None:
                holders.setdefault(port.port_guid, []).append(index)
        # A GUID that two ports claim tells neither.
        by_guid = {found: indexes[0] for found, indexes in holders.items() if len(indexes) == 1}
        for index, port in enumerate(self._ports):
            if port.subnet_guids:
                self.join([index, *(by_guid[found] for found in port.subnet_guids if found in by_guid)])

    def _join_alike(self, read: Callable[[PortEvidence], Iterable[str]]) -> None:
        alike: dict[str, list[int]] = {}
        for index, port in enumerate(self._ports):
            for value in read(port):
                alike.setdefault(value, []).append(index)
        for indexes in alike.values():
            self.join(indexes)


def why_joined(one: PortEvidence, other: PortEvidence) -> str:
    """The proof that both are in one subnet, as the end of a sentence about the first."""
    if other.port_guid in one.subnet_guids or one.port_guid in other.subnet_guids:
        return f"in one subnet with {other.name}: one was seen in the subnet of the other"
    if one.subnet_digest is not None and one.subnet_digest == other.subnet_digest:
        return f"in one subnet with {other.name}: both see the same ports in it"
    shared = sorted(one.sm_guids & other.sm_guids)
    if shared:
        return f"in one subnet with {other.name}: both have the subnet manager {shared[0]}"
    if one.own_prefix is not None and one.own_prefix == other.own_prefix:
        return f"in one subnet with {other.name}: both have the subnet prefix {one.own_prefix}"
    return f"in one subnet with {other.name}, through other ports"
