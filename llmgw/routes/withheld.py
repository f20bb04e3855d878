# SPDX-License-Identifier: Apache-2.0
"""Endpoints that are named and get no new requests, although the facts say that they serve: their replicas may be about
to end on hosts of which nothing newer is known (R4, G6b).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from llmgw.fleet.published import published
from llmgw.model.ids import EndpointId
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.placement.instances import instances_of
from llmgw.routes.build import endpoint_id

_DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class Taken:
    """An endpoint that a run drained and whose replica it then began to stop or to replace. `hosts`: where its units
    are; `silent`: those of them that never said how it ended, so that it may still go on there; `process_digest`: what
    the replica is replaced by, None where it is stopped.
    """

    endpoint: EndpointId
    hosts: frozenset[str]
    silent: frozenset[str] = frozenset()
    process_digest: str | None = None


def withheld(taken: Iterable[Taken], fleet: FleetSnapshot, answered: Container[str]) -> frozenset[EndpointId]:
    """Those of which it is not known that they serve on. `answered`: the hosts whose facts were read after the failure.

    A host that was silent in the step may stop the replica the moment after its unit was seen to run: then only the
    process that was to come is taken for one that stays.
    """
    runs = {endpoint_id(one.replica, one.node.name): one.unit.running_digest for one in instances_of(fleet) if one.led}
    return frozenset(one.endpoint for one in taken if not _serves_on(one, runs.get(one.endpoint), answered))


def _serves_on(taken: Taken, runs: str | None, answered: Container[str]) -> bool:
    if not all(host in answered for host in taken.hosts):
        return False
    return not taken.silent or (runs is not None and runs == taken.process_digest)


def still_drained(fleet: FleetSnapshot, lost_after_s: float) -> frozenset[EndpointId]:
    """What an earlier run left drained on nodes that have not answered since, as any gateway tells; and on nodes whose
    units cannot be seen, as the bundle says.

    Of silent nodes only for as long as a node may be away before it can count as lost: gateways then have to say
    whether its replicas fail, and of what is drained they do not (P9).
    """
    unseen = frozenset(EndpointId(one.id) for one in published(fleet).endpoints if one.draining)
    silent = {node.name for node in fleet.nodes if _is_silent(node, lost_after_s)}
    drained = _drained(fleet) if silent else ()
    return unseen | frozenset(name for name in drained if name.rpartition("@")[2] in silent)


def _is_silent(node: Node, lost_after_s: float) -> bool:
    if node.state is not NodeState.UNREACHABLE:
        return False
    since, last = node.unreachable_since, node.unreachable_last
    return since is None or last is None or last - since < lost_after_s


def _drained(fleet: FleetSnapshot) -> Iterator[EndpointId]:
    for gateway in fleet.gateways:
        if gateway.state is NodeState.OK and gateway.facts is not None:
            yield from (EndpointId(one.endpoint) for one in gateway.facts.endpoints if one.state == _DRAINING)
