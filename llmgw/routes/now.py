# SPDX-License-Identifier: Apache-2.0
"""The routes to what serves at this moment, whatever the catalog wants next."""

from __future__ import annotations

from collections.abc import Container, Iterator

from llmgw.fleet.published import published
from llmgw.model.ids import EndpointId
from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import Catalog
from llmgw.model.route import RouteTable
from llmgw.placement.instances import instances_of
from llmgw.routes.build import Serving, build_routes, endpoint_id
from llmgw.routes.serving import from_published, from_unit


def serving_now(fleet: FleetSnapshot) -> Iterator[Serving]:
    """Every replica whose leader's unit runs on a node that is not lost; members without a leader answer nobody. On
    nodes whose units cannot be seen, what gateways serve there: unknown is not gone.
    """
    served = published(fleet)
    kept = {one.id.rpartition("@")[0]: one for one in served.endpoints}
    moved: set[str] = set()
    for instance in instances_of(fleet):
        if not instance.led:
            continue
        serving = from_unit(instance.service, instance.unit, instance.node)
        if serving is None:
            continue
        if serving.replica in kept and endpoint_id(serving.replica, serving.node) not in served.named:
            # One of two copies that the bundle does not name: it came after the bundle, or a node brought it back.
            if (instance.unit.generation or 0) < (served.generation or 0):
                continue
            moved.add(serving.replica)
        yield serving
    yield from (from_published(one) for one in served.endpoints if one.id.rpartition("@")[0] not in moved)


def routes_now(
    catalog: Catalog,
    fleet: FleetSnapshot,
    fenced: Container[EndpointId] = (),
    draining: frozenset[EndpointId] = frozenset(),
) -> RouteTable:
    """The route table of what runs, without the endpoints in `fenced`; those in `draining` get no new requests."""
    serving = (one for one in serving_now(fleet) if endpoint_id(one.replica, one.node) not in fenced)
    return build_routes(catalog, serving, draining, len(fleet.gateways))
