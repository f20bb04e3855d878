# SPDX-License-Identifier: Apache-2.0
"""Which ports can be in a fabric at all, and which declared fabric a port is in (D8, D9). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from llmgw.fleet.fabric_evidence import PortEvidence
from llmgw.fleet.fabric_settings import INFINIBAND, Declaration
from llmgw.nodekit import contract, rdma_ports

_KINDS = {"InfiniBand": "infiniband", "Ethernet": "roce"}


def kind_of(port: contract.RdmaPort) -> str | None:
    """`infiniband`, `roce`, or another word for what is neither; None when the port does not tell."""
    return port.kind or _KINDS.get(port.link_layer or "")


def unusable(port: contract.RdmaPort) -> str | None:
    """Why no engine may use a port, as a clause about it, or None (D8)."""
    kind = rdma_ports.EFA if port.device.startswith("efa") else kind_of(port)
    if kind not in _KINDS.values():
        return f"it is neither InfiniBand nor RoCE: {kind or port.link_layer or 'its link layer is unknown'}"
    active = _active(port.state) if port.active is None else port.active
    reason = rdma_ports.why_not(port if active == port.active else replace(port, active=active))
    return None if reason is None else rdma_ports.REASONS[reason]


def _active(state: str | None) -> bool | None:
    """What the words of a port's state say; facts of an older module have only those."""
    return None if state is None else state.rpartition(":")[2].strip().upper() == "ACTIVE"


def chosen(port: PortEvidence, declarations: Iterable[Declaration]) -> tuple[Declaration | None, tuple[str, ...]]:
    """The declared fabric of a port (None: no declaration names it), and what declarations say against that.

    The first of PCI address, subnet manager, subnet prefix and IP range that a declaration has is what tells its
    ports; what it has besides must be true of them.
    """
    found = [(rank, one, how) for one in declarations for rank, how in [_selects(one, port)] if how is not None]
    if not found:
        return None, ()
    found.sort(key=lambda entry: (entry[0], entry[1].name))
    _, declaration, how = found[0]
    against = [*_untrue(declaration, port)]
    against += [f"declared {declaration.name} {how}, and {other.name} {other_how}" for _, other, other_how in found[1:]]
    return declaration, tuple(against)


def _selects(one: Declaration, port: PortEvidence) -> tuple[int, str | None]:
    """How sure a declaration's way of telling its ports is (lower is surer), and how it names this one, if it does."""
    if one.netdevs and not port.netdevs & set(one.netdevs):
        return 0, None
    if one.pci:
        return 0, "by its PCI address" if port.pci_address in one.pci else None
    if port.infiniband != (one.kind == INFINIBAND):
        return 0, None
    if one.sm_guids:
        return 1, "by its subnet manager" if port.sm_guids & set(one.sm_guids) else None
    if one.subnet_prefix:
        return 2, "by its subnet prefix" if port.prefix == one.subnet_prefix else None
    return 3, "by its IP address" if any(at in net for at in port.addresses for net in one.cidrs) else None


def _untrue(one: Declaration, port: PortEvidence) -> Iterator[str]:
    if port.infiniband != (one.kind == INFINIBAND):
        yield f"its link is {'InfiniBand' if port.infiniband else 'Ethernet'}, and {one.name} is declared {one.kind}"
        return
    if one.sm_guids and port.sm_guids and not port.sm_guids & set(one.sm_guids):
        seen = ", ".join(sorted(port.sm_guids))
        yield f"its subnet manager is {seen}, and {one.name} is declared with {', '.join(one.sm_guids)}"
    if one.subnet_prefix and port.prefix and port.prefix != one.subnet_prefix:
        yield f"its subnet prefix is {port.prefix}, and {one.name} is declared with {one.subnet_prefix}"
    if one.cidrs and port.addresses and not any(at in net for at in port.addresses for net in one.cidrs):
        ranges = ", ".join(map(str, one.cidrs))
        yield f"its address is {', '.join(map(str, port.addresses))}, and {one.name} is declared in {ranges}"
