# SPDX-License-Identifier: Apache-2.0
"""The admin API's documents, built from the bundle and from what this gateway knows itself. Reads only."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass

from llmgw.gateway.admin.admin_models import (
    EndpointItem,
    EndpointsDocument,
    FindingsDocument,
    NodesDocument,
    PlanDocument,
    ReplicaItem,
    ReplicasDocument,
    ReplicaUnit,
    RouteItem,
    RoutesDocument,
    ServiceItem,
    ServicesDocument,
    StatusDocument,
)
from llmgw.gateway.admin.fleet_view import FindingView, FleetView, read_finding, read_fleet
from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.endpoints.health import State
from llmgw.gateway.processes.processes import Processes
from llmgw.gateway.processes.reload import BundleFile
from llmgw.gateway.table import LiveEndpoint, LiveRoute

KEY_REMEDY = "set it in llmgw_gateway_secrets and run the playbook llmgw.fleet.gateway"
RELOAD_REMEDY = "mend that, then systemctl reload llmgw-gateway.service"
SEVERITIES = ("block", "error", "warn", "warning", "info")


@dataclass(frozen=True, slots=True)
class Views:
    """The documents of one gateway. `started_with`: settings of the bundle that were taken at start and only then;
    `reloaded`: those of them that a reload takes in too. `table` numbers are the sums over `processes`.
    """

    plane: DataPlane
    file: BundleFile
    version: str
    started_at: float
    started_with: Mapping[str, object]
    processes: Processes
    reloaded: Container[str] = ()

    @property
    def _generation(self) -> int | None:
        """The oldest in force anywhere in the gateway: whoever waits for a generation waits for the last worker."""
        return self.processes.generation

    @property
    def _fleet(self) -> FleetView:
        bundle = self.plane.table.bundle
        return read_fleet(None if bundle is None else bundle.fleet)

    @property
    def _routes(self) -> list[LiveRoute]:
        routes = self.plane.table.routes
        return [routes[name] for name in sorted(routes)]

    def status(self) -> StatusDocument:
        """The gateway itself."""
        table = self.plane.table
        bundle = table.bundle
        return StatusDocument(
            generation=self._generation,
            version=self.version,
            started_at=self.started_at,
            loaded_at=table.loaded_at,
            written_at=None if bundle is None else bundle.written_at,
            routes_digest=None if bundle is None else bundle.routes_digest,
            draining=self.plane.draining,
            bundle_problem=self.file.problem,
            restart_needed=self._restart_needed(),
            services=len(table.routes),
            requests_in_flight=self.processes.requests,
            endpoints_by_state=dict(sorted(Counter(self._state(one).value for one in table.everywhere()).items())),
            nodes_by_state=dict(sorted(Counter(node.state or "unknown" for node in self._fleet.nodes).items())),
        )

    def _restart_needed(self) -> list[str]:
        now = self.plane.table.gateway
        return [name for name, value in self.started_with.items() if getattr(now, name) != value]

    def endpoints(self) -> EndpointsDocument:
        """All endpoints, those that only finish their last requests too."""
        endpoints = sorted(self.plane.table.everywhere(), key=lambda endpoint: endpoint.spec.id)
        return EndpointsDocument(generation=self._generation, endpoints=list(map(self._endpoint, endpoints)))

    def _state(self, endpoint: LiveEndpoint) -> State:
        return self.processes.state(endpoint)[0]

    def _endpoint(self, endpoint: LiveEndpoint) -> EndpointItem:
        spec = endpoint.spec
        state, detail = self.processes.state(endpoint)
        now = self.plane.loop.time()
        return EndpointItem(
            id=spec.id,
            replica=spec.replica,
            node=spec.node,
            service=endpoint.route.spec.service,
            url=endpoint.url,
            model=spec.model,
            engine=spec.engine,
            state=state,
            since=endpoint.since(now, time.time()),
            detail=detail,
            in_flight=endpoint.in_flight,
            good=endpoint.good,
            bad=endpoint.bad,
            leaving=endpoint.leaving,
            device_class=spec.device_class,
            devices=spec.devices,
        )

    def routes(self) -> RoutesDocument:
        """The route table in force."""
        bundle = self.plane.table.bundle
        return RoutesDocument(
            generation=self._generation,
            routes_digest=None if bundle is None else bundle.routes_digest,
            routes=[
                RouteItem(
                    service=route.spec.service,
                    served_name=route.spec.served_name,
                    aliases=list(route.spec.aliases),
                    policy=route.spec.policy,
                    priority=route.spec.priority,
                    max_concurrency=route.max_concurrency,
                    endpoints=[endpoint.spec.id for endpoint in route.endpoints],
                )
                for route in self._routes
            ],
        )

    def services(self) -> ServicesDocument:
        """All services with their endpoints."""
        return ServicesDocument(
            generation=self._generation,
            services=[
                ServiceItem(
                    service=route.spec.service,
                    served_name=route.spec.served_name,
                    aliases=list(route.spec.aliases),
                    desired=route.spec.desired,
                    ready=len(route.ready),
                    in_flight=route.in_flight,
                    endpoints=list(map(self._endpoint, route.endpoints)),
                )
                for route in self._routes
            ],
        )

    def replicas(self) -> ReplicasDocument:
        """All replicas that routes name or that nodes report."""
        endpoints = {str(endpoint.spec.replica): endpoint for endpoint in self.plane.table.everywhere()}
        units: dict[str, list[ReplicaUnit]] = {}
        for node in self._fleet.nodes:
            for unit in node.units:
                if unit.replica:
                    units.setdefault(unit.replica, []).append(ReplicaUnit(node=node.name, unit=unit))
        replicas = []
        for replica in sorted({*endpoints, *units}):
            endpoint = endpoints.get(replica)
            replicas.append(
                ReplicaItem(
                    replica=replica,
                    service=replica.rpartition("/")[0],
                    state=None if endpoint is None else self._state(endpoint),
                    endpoint=None if endpoint is None else endpoint.spec.id,
                    units=units.get(replica, []),
                )
            )
        return ReplicasDocument(generation=self._generation, replicas=replicas)

    def nodes(self) -> NodesDocument:
        """All nodes of the fleet document."""
        fleet = self._fleet
        return NodesDocument(generation=self._generation, taken_at=fleet.taken_at, nodes=list(fleet.nodes))

    def plan(self) -> PlanDocument:
        """The plan in the bundle."""
        bundle = self.plane.table.bundle
        return PlanDocument(generation=self._generation, plan=None if bundle is None else bundle.plan)

    def findings(self) -> FindingsDocument:
        """Findings about the fleet, about its nodes, and about this gateway."""
        bundle = self.plane.table.bundle
        found = [read_finding(entry) for entry in (() if bundle is None else bundle.findings)]
        found += [finding for node in self._fleet.nodes for finding in node.findings]
        if self.file.problem is not None:
            found.append(FindingView("bundle-not-taken", "warn", self.file.problem, None))
        for problem in self.processes.problems():
            found.append(FindingView("gateway-worker", "warn", problem, None))
        for name in sorted(self.plane.table.missing_secrets):
            text = f"routes name the variable {name} for an engine's key, and this gateway does not have it"
            found.append(FindingView("engine-key-missing", "warn", text, None, KEY_REMEDY))
        if self.plane.reload_problem is not None:
            text = f"the last reload did not go through; what it did not replace goes on: {self.plane.reload_problem}"
            found.append(FindingView("gateway-reload-refused", "warn", text, None, RELOAD_REMEDY))
        needed = self._restart_needed()
        if needed:
            text = f"settings of the gateway changed since it started: {', '.join(needed)}"
            how = "reload" if all(name in self.reloaded for name in needed) else "restart"
            remedy = f"systemctl {how} llmgw-gateway.service"
            found.append(FindingView("gateway-restart-needed", "warn", text, None, remedy))
        found = sorted(set(found), key=_rank)
        return FindingsDocument(generation=self._generation, findings=found)


def _rank(finding: FindingView) -> tuple[int, str, str, str]:
    severity = finding.severity or ""
    place = SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
    return place, finding.node or "", finding.code or "", finding.message or ""
