# SPDX-License-Identifier: Apache-2.0
"""Where the replicas of one service are while they are placed: by node, and by the label it is spread over (C3)."""

from __future__ import annotations

import math
from collections.abc import Iterable

from llmgw.model.node import Node
from llmgw.model.placement import Assignment
from llmgw.model.replica import ServiceSpec

BY_NODE = "node"


class Tally:
    """Counts of one service. Mutable and short-lived, as ledgers are.

    `share`: most replicas that one spread domain may have; None where the service is not spread.
    """

    def __init__(self, service: ServiceSpec, share: int | None = None) -> None:
        self.service = service
        self.share = share
        self.nodes: dict[str, int] = {}
        self.domains: dict[str, int] = {}

    def domain(self, node: Node) -> str | None:
        """The spread domain of a node; None where the service is not spread, and where the node has no such label."""
        return domain_of(self.service.spread, node)

    def add(self, assignment: Assignment, nodes: Iterable[Node], step: int = 1) -> None:
        """Count a replica on the nodes of its members; with `step` -1 no longer."""
        for member in assignment.members:
            _count(self.nodes, member.node, step)
        for domain in {self.domain(node) for node in nodes}:
            if domain is not None:
                _count(self.domains, domain, step)


def _count(counts: dict[str, int], name: str, step: int) -> None:
    counts[name] = counts.get(name, 0) + step
    if not counts[name]:
        del counts[name]


def domain_of(spread: str | None, node: Node) -> str | None:
    """The value of the label that a service is spread over, on a node."""
    if spread is None:
        return None
    return node.name if spread == BY_NODE else node.labels.get(spread)


def even_share(service: ServiceSpec, nodes: Iterable[Node]) -> int | None:
    """Replicas over the spread domains of the nodes that could take any, rounded up; None without a spread."""
    if service.spread is None:
        return None
    domains = {domain for domain in (domain_of(service.spread, node) for node in nodes) if domain is not None}
    return math.ceil(service.replicas / max(1, len(domains)))
