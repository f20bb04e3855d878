# SPDX-License-Identifier: Apache-2.0
"""Route tables: which endpoints each service has, from the replicas that are meant to serve (G2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmgw.model.ids import EndpointId, EngineKind, NodeName, ReplicaId
from llmgw.model.replica import Catalog, ServiceSpec
from llmgw.model.route import Endpoint, Route, RouteTable
from llmgw.model.unit import Readiness


@dataclass(frozen=True, slots=True)
class Serving:
    """One replica that has an address: enough to name an endpoint. `health` tells how it is probed."""

    service: str
    replica: ReplicaId
    node: NodeName
    engine: EngineKind
    model: str
    health: Readiness
    process_digest: str | None = None
    device_class: str | None = None
    devices: int | None = None
    max_model_len: int | None = None


def endpoint_id(replica: str, node: str) -> EndpointId:
    """`chat/0@n1`."""
    return EndpointId(f"{replica}@{node}")


def build_routes(
    catalog: Catalog, serving: Iterable[Serving], draining: frozenset[EndpointId] = frozenset()
) -> RouteTable:
    """The route table that names every serving replica once, sorted; those in `draining` get no new requests.

    Replicas of services that the catalog no longer has are routed nowhere.
    """
    by_service: dict[str, list[Endpoint]] = {}
    for one in serving:
        endpoint = _endpoint(one, draining)
        if endpoint is not None:
            by_service.setdefault(one.service, []).append(endpoint)
    routes = tuple(_route(service, by_service.get(service.name, [])) for service in catalog.services)
    return RouteTable(routes, catalog.gateway)


def _endpoint(one: Serving, draining: frozenset[EndpointId]) -> Endpoint | None:
    if one.health.address is None or one.health.port is None:
        return None
    name = endpoint_id(one.replica, one.node)
    return Endpoint(
        id=name,
        replica=one.replica,
        node=one.node,
        address=one.health.address,
        port=one.health.port,
        engine=one.engine,
        model=one.model,
        draining=name in draining,
        health_path=one.health.health_path,
        models_path=one.health.models_path,
        process_digest=one.process_digest,
        device_class=one.device_class,
        devices=one.devices,
        max_model_len=one.max_model_len,
    )


def _route(service: ServiceSpec, endpoints: list[Endpoint]) -> Route:
    return Route(
        service=service.name,
        served_name=service.served_name,
        aliases=service.aliases,
        endpoints=tuple(sorted(endpoints, key=lambda endpoint: endpoint.id)),
        desired=service.replicas,
        priority=service.priority,
        policy=service.policy,
        admission=service.admission,
    )
