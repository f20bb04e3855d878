# SPDX-License-Identifier: Apache-2.0
"""What joins a node to others, as text: its NVLink domain, IMEX, and its ports with the verdicts on them (D7-D9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from llmgw.cli.cells import or_dash, plural, runs, some
from llmgw.fleet.domains import is_joined, key_of
from llmgw.fleet.fabric_selection import kind_of, unusable
from llmgw.fleet.unknown_ports import is_unknown
from llmgw.model.fabric import FabricPort, NvlinkDomain, Verdict
from llmgw.model.node import Node
from llmgw.nodekit import contract

_NAMED = 8
"""How many nodes a line names before it counts."""
_CARD_FABRIC = "NVLink state"
"""The kind of facts that tells which domain a card is in."""
_NAMES = {"infiniband": "InfiniBand", "roce": "RoCE"}


def domain_lines(
    facts: contract.NodeFacts, seen: Node | None = None, domains: Sequence[NvlinkDomain] = ()
) -> Iterator[tuple[str, str]]:
    """Label and text: the domain that the cards are in, its other nodes, and IMEX."""
    if seen is not None and seen.domain is not None:
        member = seen.domain
        slow = f", {member.degraded} with less than full bandwidth" if member.degraded else ""
        ready = "ready" if member.ready else f"not ready: {'; '.join(member.kept_out)}"
        yield "domain", f"{member.domain}: {member.joined} of {member.cards} cards joined{slow}, {ready}"
        for domain in domains:
            if domain.name == member.domain:
                yield " ", _others(domain, seen.name)
    else:
        keys = Counter(key for gpu in facts.gpus or () if (key := key_of(gpu.fabric)) is not None)
        for (uuid, clique), count in sorted(keys.items()):
            joined = sum(key_of(gpu.fabric) == (uuid, clique) and is_joined(gpu.fabric) for gpu in facts.gpus or ())
            yield "domain", f"{uuid}.{clique}: {joined} of {plural(count, 'card')} joined"
        if not keys:
            yield "domain", without_domain(facts, seen.forgotten if seen else ())
    if facts.imex is not None:
        yield "imex", _imex(facts.imex)
    elif seen is not None and seen.domain is not None:
        yield "imex", "-"


def without_domain(facts: contract.NodeFacts | None, forgotten: Sequence[str] = ()) -> str:
    """What a node whose cards name no domain is in: `none`, or `-` where that is not known.

    Drivers tell nothing of a fabric for cards that have none; what one told too long ago is among the `forgotten`.
    """
    cards = facts.gpus if facts else None
    if cards is None or _CARD_FABRIC in forgotten:
        return "-"
    answered = [gpu for gpu in cards if gpu.uuid is not None]
    known = all(gpu.fabric is None or gpu.fabric.state is not None for gpu in answered)
    return "none" if known and (answered or not cards) else "-"


def _others(domain: NvlinkDomain, own: str) -> str:
    ready = [str(one.node) for one in domain.members if one.ready and one.node != own]
    waiting = [str(one.node) for one in domain.members if not one.ready and one.node != own]
    words = [f"with {some(ready, _NAMED)}" if ready else "", f"not ready: {some(waiting, _NAMED)}" if waiting else ""]
    return "; ".join(filter(None, words)) or "no other node of it is known"


def _imex(imex: contract.Imex) -> str:
    service = {True: "the service runs", False: f"the service is {imex.service_state or 'not running'}", None: None}
    states = Counter(or_dash(node.status) for node in imex.nodes)
    words = [
        f"domain {imex.domain_state}" if imex.domain_state else None,
        service[imex.active],
        f"own state {imex.daemon_status}" if imex.daemon_status else None,
        f"{plural(len(imex.nodes), 'node')} listed ({', '.join(f'{count} {word}' for word, count in states.items())})"
        if imex.nodes
        else None,
        f"{plural(imex.unconnected, 'connection')} missing" if imex.unconnected else None,
        None if imex.channels is None else f"channels {runs(imex.channels) or 'none'}",
    ]
    return ", ".join(filter(None, words)) or "-"


def port_lines(facts: contract.NodeFacts, seen: Node | None = None) -> Iterator[tuple[str, str]]:
    """Label and text of each InfiniBand or RoCE port."""
    judged = {(port.device, port.port): port for port in (seen.ports if seen else None) or ()}
    if not facts.rdma_ports:
        yield "port", "-" if facts.rdma_ports is None else "none"
    for port in facts.rdma_ports or ():
        verdict = judged.get((port.device, port.port))
        yield "port", f"{port.device}:{port.port} {_port(port)}{_verdict(verdict, port)}"


def _port(port: contract.RdmaPort) -> str:
    words = [
        _NAMES.get(kind_of(port) or "", or_dash(kind_of(port) or port.link_layer)),
        or_dash(port.state and port.state.rpartition(":")[2].strip().lower()),
        None if port.rate_gbps is None else f"{port.rate_gbps:g} Gb/s",
        None if port.lid is None else f"LID {port.lid}",
        port.netdev,
        port.pci_address,
        None if port.numa_node is None else f"NUMA node {port.numa_node}",
    ]
    return ", ".join(filter(None, words))


def _verdict(judged: FabricPort | None, port: contract.RdmaPort) -> str:
    if judged is None:
        reason = unusable(port)
        return f": not for engines, {reason}" if reason else ""
    why = "; ".join(judged.evidence)
    if is_unknown(judged):
        return f": unknown whether engines may use it, {why}"
    if judged.verdict is Verdict.EXCLUDED:
        return f": not for engines, {why}"
    rail = "" if judged.rail is None else f", rail {judged.rail}"
    mark = "! " if judged.verdict is Verdict.CONTRADICTED else ""
    return f": {mark}{f'{judged.fabric}{rail} ' if judged.fabric else ''}{judged.verdict.value}, {why}"
