# SPDX-License-Identifier: Apache-2.0
"""Route tables: which endpoints each service has, from the replicas that are meant to serve (G2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

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
    api_key_env: str | None = None
    """The variable by which gateways have the secret that its clients must bring."""
    unseen: bool = False
    """Its unit cannot be seen: it is what gateways serve."""


def endpoint_id(replica: str, node: str) -> EndpointId:
    """`chat/0@n1`."""
    return EndpointId(f"{replica}@{node}")


def build_routes(
    catalog: Catalog, serving: Iterable[Serving], draining: frozenset[EndpointId] = frozenset(), gateways: int = 1
) -> RouteTable:
    """The route table that names every serving replica once, sorted; those in `draining` get no new requests.
    `gateways`: how many gateway hosts there are.

    Replicas of services that the catalog no longer has are routed nowhere.
    """
    return Routes(catalog, serving, gateways=gateways).table(draining)


class Routes:
    """Endpoints that come and go wave by wave. A table costs what changed since the last one, not the whole fleet.
    Those in `drained` get no new requests in any.
    """

    def __init__(
        self,
        catalog: Catalog,
        serving: Iterable[Serving] = (),
        drained: frozenset[EndpointId] = frozenset(),
        *,
        gateways: int = 1,
    ) -> None:
        self._catalog = catalog
        self._gateways = max(1, gateways)
        self._drained = drained
        self._serving: dict[EndpointId, Serving] = {}
        self._unseen: dict[ReplicaId, set[EndpointId]] = {}
        self._endpoints: dict[str, dict[EndpointId, Endpoint]] = {service.name: {} for service in catalog.services}
        self._built: dict[str, Route] = {}
        for one in sorted(serving, key=lambda one: one.unseen):
            self.add(one)

    def __contains__(self, name: EndpointId) -> bool:
        return name in self._serving

    def of_service(self, service: str) -> tuple[EndpointId, ...]:
        """What is named of a service and not drained for good, sorted."""
        return tuple(sorted(name for name in self._endpoints.get(service, ()) if name not in self._drained))

    def add(self, one: Serving) -> EndpointId:
        """Name a replica from now on, in place of an endpoint of the same id, and of one of the same replica whose unit
        cannot be seen: it has come elsewhere. Returns its endpoint's id.
        """
        name = endpoint_id(one.replica, one.node)
        self.remove(name)
        if one.unseen:
            self._unseen.setdefault(one.replica, set()).add(name)
        else:
            for other in self._unseen.pop(one.replica, ()):
                self.remove(other)
        self._serving[name] = one
        endpoint = _endpoint(one, name)
        if endpoint is not None and one.service in self._endpoints:
            self._endpoints[one.service][name] = endpoint
            self._built.pop(one.service, None)
        return name

    def remove(self, name: EndpointId) -> None:
        """Name an endpoint no more, if it was named."""
        one = self._serving.pop(name, None)
        if one is not None and self._endpoints.get(one.service, {}).pop(name, None) is not None:
            self._built.pop(one.service, None)

    def table(self, draining: frozenset[EndpointId] = frozenset()) -> RouteTable:
        """The routes to what is named now; endpoints in `draining` get no new requests."""
        draining |= self._drained
        touched = {self._serving[name].service for name in draining & self._serving.keys()}
        routes = []
        for service in self._catalog.services:
            if service.name not in self._built:
                self._built[service.name] = _route(service, self._endpoints[service.name].values())
            route = self._built[service.name]
            routes.append(_with_draining(route, draining) if service.name in touched else route)
        return RouteTable(tuple(routes), self._catalog.gateway, self._gateways)


def _endpoint(one: Serving, name: EndpointId) -> Endpoint | None:
    if one.health.address is None or one.health.port is None:
        return None
    return Endpoint(
        id=name,
        replica=one.replica,
        node=one.node,
        address=one.health.address,
        port=one.health.port,
        engine=one.engine,
        model=one.model,
        health_path=one.health.health_path,
        models_path=one.health.models_path,
        process_digest=one.process_digest,
        api_key_env=one.api_key_env,
        device_class=one.device_class,
        devices=one.devices,
        max_model_len=one.max_model_len,
    )


def _route(service: ServiceSpec, endpoints: Iterable[Endpoint]) -> Route:
    return Route(
        service=service.name,
        served_name=service.served_name,
        aliases=service.aliases,
        endpoints=tuple(sorted(endpoints, key=lambda endpoint: endpoint.id)),
        desired=service.replicas,
        priority=service.priority,
        policy=service.policy,
        admission=service.admission,
        fallbacks=service.fallbacks,
        split=service.split,
    )


def _with_draining(route: Route, draining: frozenset[EndpointId]) -> Route:
    endpoints = tuple(replace(one, draining=True) if one.id in draining else one for one in route.endpoints)
    return replace(route, endpoints=endpoints)
