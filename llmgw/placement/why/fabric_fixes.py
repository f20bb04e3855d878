# SPDX-License-Identifier: Apache-2.0
"""What could be done so that a node may serve one replica together with others (P5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from llmgw.model.fabric import FabricPort, Verdict
from llmgw.model.node import Device, Node
from llmgw.model.why import Cost, Step
from llmgw.placement.why.asked import Asked
from llmgw.placement.why.edits import Edit

_VERBS = {
    Verdict.UNVERIFIED: "prove",
    Verdict.CONTRADICTED: "mend",
    Verdict.UNDECLARED: "declare",
}


def join_domain(asked: Asked) -> Iterator[Edit]:
    """Bring the node into its NVLink domain: all cards joined, IMEX up on all members (D7)."""
    domain = asked.node.domain
    if domain is None or domain.ready:
        return
    reasons = "; ".join(domain.kept_out)
    if domain.joined < domain.cards:
        kind, words = "join-cards", f"get all cards of {{nodes}} joined in NVLink domain {domain.domain}"
    else:
        kind, words = "imex", f"get IMEX up on {{nodes}} for NVLink domain {domain.domain}"
    told = f"{words} ({reasons})" if reasons else words
    step = Step(
        kind, told, {}, domain.joined, domain.cards, "cards joined", how="see `llmgw nodes` and the node's findings"
    )
    yield Edit(step, Cost.NODE_WORK, group=domain.domain, on_node=_joined)


def confirm_fabric(asked: Asked) -> Iterator[Edit]:
    """Get ports confirmed in their fabric; one proposal a fabric."""
    if asked.node.ports is None:
        return
    doubtful = [port for port in asked.node.ports if port.verdict in _VERBS and port.fabric is not None]
    for fabric in sorted({port.fabric for port in doubtful if port.fabric is not None}):
        ports = sorted((port for port in doubtful if port.fabric == fabric), key=lambda port: port.name)
        verdict = ports[0].verdict
        evidence = f" ({ports[0].name}: {ports[0].evidence[0]})" if ports[0].evidence else ""
        step = Step(
            "fabric",
            f"{_VERBS[verdict]} fabric {fabric} on {{nodes}}{evidence}",
            {"fabric": fabric},
            0,
            len(ports),
            "ports confirmed",
            how="llmgw_fabrics in the inventory; docs/how-to/declare-fabrics.md",
        )
        cost = Cost.SETTING if verdict is Verdict.UNDECLARED else Cost.NODE_WORK
        yield Edit(step, cost, group=f"{fabric} {verdict.value}", on_node=_confirms(fabric))


def _joined(node: Node) -> Node:
    def free(device: Device) -> Device:
        left = tuple(finding for finding in device.kept_away_by if finding.code != "fabric-not-joined")
        return replace(device, kept_away_by=left)

    domain = node.domain
    ready = None if domain is None else replace(domain, ready=True, joined=domain.cards, imex_up=True, kept_out=())
    return replace(node, domain=ready, devices=None if node.devices is None else tuple(map(free, node.devices)))


def _confirms(fabric: str) -> Callable[[Node], Node]:
    def confirmed(port: FabricPort) -> FabricPort:
        return replace(port, verdict=Verdict.CONFIRMED) if port.fabric == fabric and port.verdict in _VERBS else port

    return lambda node: replace(node, ports=tuple(map(confirmed, node.ports or ())))
