# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the fabrics, told at the nodes that it concerns (D9). Pure; nothing here blocks (P1b)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from llmgw.fleet.fabric_addresses import pci_address
from llmgw.fleet.fabric_settings import INFINIBAND, VARIABLE, Declaration
from llmgw.fleet.fabrics import UNDECLARED, Judged
from llmgw.model.fabric import Fabric, FabricPort, Verdict
from llmgw.nodekit import contract

_RECABLE = (
    f"Compare the cabling with {VARIABLE} and mend the one that is wrong. Where a node's ports are on rails that "
    "nothing connects, declare rails: independent."
)


def findings_of(
    judged: Judged, declared: Mapping[str, tuple[Declaration, ...]]
) -> dict[str, tuple[contract.Finding, ...]]:
    """Node to its findings about ports and fabrics; only nodes that have some."""
    found: dict[str, list[contract.Finding]] = {}
    empty = {fabric.name: fabric.notes for fabric in judged.fabrics if not fabric.members}
    for node, ports in judged.ports.items():
        own = [*_contradicted(ports), *_apart(ports, judged.apart.get(node, {}))]
        own += [*_missing(ports, declared.get(node, ())), *_undeclared(ports)]
        own += _unmatched(ports, declared.get(node, ()), empty)
        found.setdefault(node, []).extend(own)
    for fabric in judged.fabrics:
        for node, finding in _uneven(fabric):
            found.setdefault(node, []).append(finding)
    return {node: tuple(findings) for node, findings in found.items() if findings}


def _contradicted(ports: Iterable[FabricPort]) -> Iterator[contract.Finding]:
    for port in ports:
        if port.verdict is Verdict.CONTRADICTED:
            yield contract.Finding(
                "fabric-contradicted",
                "warn",
                f"{port.name} is declared {port.fabric}, and that is wrong: {port.evidence[0]}",
                remedy=_RECABLE,
                subject=port.name,
                evidence=port.evidence[1:],
            )


def _apart(ports: Iterable[FabricPort], clauses: Mapping[str, str]) -> Iterator[contract.Finding]:
    for port in ports:
        if port.name in clauses:
            yield contract.Finding(
                "fabric-other-manager",
                "warn",
                f"{port.name} is declared {port.fabric}: {clauses[port.name]}",
                remedy="If the subnet manager moved, run `llmgw facts refresh`; else the port is cabled to another "
                f"fabric: compare the cabling with {VARIABLE}.",
                subject=port.name,
            )


def _unmatched(
    ports: Sequence[FabricPort], declarations: Iterable[Declaration], empty: Mapping[str, Sequence[str]]
) -> Iterator[contract.Finding]:
    """Declared fabrics that no port of any node is in, at nodes with a port that might have been meant."""
    loose = {port.kind for port in ports if port.verdict is Verdict.UNDECLARED}
    for one in declarations:
        if one.name in empty and one.kind in loose:
            yield contract.Finding(
                "fabric-unmatched",
                "warn",
                f"{one.name} is {', '.join(empty[one.name])}",
                remedy=f"Compare {VARIABLE} with what the ports of this node say: `llmgw nodes NODE` shows them.",
                subject=one.name,
            )


def _missing(ports: Sequence[FabricPort], declarations: Iterable[Declaration]) -> Iterator[contract.Finding]:
    """Declared PCI addresses without a usable port, on a node that has some of that fabric's ports: a group's
    variable also reaches nodes that have none.
    """
    by_address: dict[str, list[FabricPort]] = {}
    for port in ports:
        by_address.setdefault(_spelled(port.pci_address), []).append(port)
    for one in declarations:
        usable = {
            address: any(port.verdict is not Verdict.EXCLUDED for port in by_address.get(address, ()))
            for address in one.pci
        }
        for address in one.pci if any(port.fabric == one.name and _sound(port) for port in ports) else ():
            if not usable[address]:
                there = by_address.get(address, [])
                why = (
                    f"{there[0].name} is not usable, {there[0].evidence[0]}"
                    if there
                    else "no adapter of this node has it"
                )
                yield contract.Finding(
                    "fabric-port-missing",
                    "warn",
                    f"{one.name} is declared with {address}: {why}",
                    remedy=f"Mend the port or its link, or take the address out of {VARIABLE} for this host.",
                    subject=there[0].name if there else address,
                )


def _sound(port: FabricPort) -> bool:
    return port.verdict in {Verdict.CONFIRMED, Verdict.UNVERIFIED}


def _spelled(address: str | None) -> str:
    try:
        return pci_address(address or "")
    except ValueError:
        return ""


def _undeclared(ports: Iterable[FabricPort]) -> Iterator[contract.Finding]:
    loose = [port for port in ports if port.verdict is Verdict.UNDECLARED and port.kind == INFINIBAND]
    if loose:
        names = sorted({port.fabric for port in loose if port.fabric})
        where = f" ({', '.join(names)})" if names else ""
        yield contract.Finding(
            "fabric-undeclared",
            "info",
            f"InfiniBand ports that no declared fabric has{where}: {', '.join(port.name for port in loose)}",
            remedy=f"Declare their fabric in {VARIABLE} if replicas shall span nodes over it.",
            evidence=tuple(dict.fromkeys(told for port in loose for told in port.evidence if told != UNDECLARED)),
        )


def _uneven(fabric: Fabric) -> Iterator[tuple[str, contract.Finding]]:
    """Nodes with fewer ports than most: a replica over several nodes takes as many ports of each."""
    if not fabric.declared or not fabric.members:
        return
    count = {
        member.node: sum(port.verdict is not Verdict.CONTRADICTED for port in member.ports) for member in fabric.members
    }
    usual, nodes = max(Counter(count.values()).items(), key=lambda entry: (entry[1], entry[0]), default=(0, 0))
    for node, ports in count.items():
        if ports != usual:
            yield (
                node,
                contract.Finding(
                    "fabric-uneven",
                    "warn",
                    f"{nodes} of {len(count)} nodes have {usual} ports in {fabric.name}, this one has {ports}",
                    remedy="A replica over several nodes needs as many on each: look for ports that are down, "
                    f"or declare only those that all have in {VARIABLE}.",
                    subject=fabric.name,
                ),
            )
