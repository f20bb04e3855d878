# SPDX-License-Identifier: Apache-2.0
"""What joins a node to others, as text: its NVLink domain, IMEX, and its ports with the verdicts on them (D7-D9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from llmgw.cli.cells import or_dash, plural, runs
from llmgw.fleet.domains import is_joined, key_of
from llmgw.fleet.fabric_selection import kind_of, unusable
from llmgw.model.fabric import FabricPort, Verdict
from llmgw.model.node import Node
from llmgw.nodekit import contract

_NAMES = {"infiniband": "InfiniBand", "roce": "RoCE"}


def domain_lines(facts: contract.NodeFacts, seen: Node | None = None) -> Iterator[tuple[str, str]]:
    """Label and text: the domain that the cards are in, and IMEX."""
    if seen is not None and seen.domain is not None:
        member = seen.domain
        slow = f", {member.degraded} with less than full bandwidth" if member.degraded else ""
        ready = "ready" if member.ready else f"not ready: {'; '.join(member.kept_out)}"
        yield "domain", f"{member.domain}: {member.joined} of {member.cards} cards joined{slow}, {ready}"
    else:
        keys = Counter(key for gpu in facts.gpus or () if (key := key_of(gpu.fabric)) is not None)
        for (uuid, clique), count in sorted(keys.items()):
            joined = sum(key_of(gpu.fabric) == (uuid, clique) and is_joined(gpu.fabric) for gpu in facts.gpus or ())
            yield "domain", f"{uuid}.{clique}: {joined} of {plural(count, 'card')} joined"
    if facts.imex is not None:
        yield "imex", _imex(facts.imex)


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
    if judged.verdict is Verdict.EXCLUDED:
        return f": not for engines, {why}"
    rail = "" if judged.rail is None else f", rail {judged.rail}"
    mark = "! " if judged.verdict is Verdict.CONTRADICTED else ""
    return f": {mark}{f'{judged.fabric}{rail} ' if judged.fabric else ''}{judged.verdict.value}, {why}"
