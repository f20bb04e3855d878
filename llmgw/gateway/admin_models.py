# SPDX-License-Identifier: Apache-2.0
"""The documents of the admin API (G10): versioned, typed, null where something is not known."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from llmgw.gateway.fleet_view import FindingView, NodeView, UnitView
from llmgw.gateway.health import State

FORMAT = 1


class Document(BaseModel):
    """What every answer says first."""

    model_config = ConfigDict(frozen=True)

    format_version: int = FORMAT
    generation: int | None = Field(description="Generation of the routes in force; null before the first bundle.")


class ErrorDetail(BaseModel):
    """One thing that is wrong."""

    code: str = Field(description="Stable name of the error.")
    message: str
    fix: str | None = Field(default=None, description="What to do about it.")


class ErrorDocument(BaseModel):
    """The one shape of every error of the admin API."""

    error: ErrorDetail


class StatusDocument(Document):
    """The gateway itself."""

    version: str
    started_at: float = Field(description="Seconds of Unix time.")
    loaded_at: float | None = Field(description="When the routes in force were loaded; seconds of Unix time.")
    written_at: float | None = Field(description="When the bundle was made; seconds of Unix time.")
    routes_digest: str | None
    draining: bool
    bundle_problem: str | None = Field(description="Why the newest bundle is not in force; null when it is.")
    restart_needed: list[str] = Field(description="Settings that changed since the start and need a restart to count.")
    services: int
    requests_in_flight: int
    endpoints_by_state: dict[str, int]
    nodes_by_state: dict[str, int]


class EndpointItem(BaseModel):
    """One endpoint as this gateway sees it."""

    id: str
    replica: str
    node: str
    service: str
    url: str
    model: str = Field(description="Name under which the engine serves the weights.")
    engine: str
    state: State
    since: float = Field(description="When the state began that probes found; seconds of Unix time.")
    detail: str | None = Field(description="Why it is not ready.")
    in_flight: int = Field(description="Requests that it has from this gateway.")
    good: int = Field(
        description="Complete answers with a status below 500 other than 429, since this address came into the routes."
    )
    bad: int = Field(description="Answers with 5xx other than 503, and those that broke off or never began; likewise.")
    leaving: bool = Field(description="Whether no route names it any more and only its last requests keep it here.")
    device_class: str | None
    devices: int | None


class EndpointsDocument(Document):
    """All endpoints, sorted by id."""

    endpoints: list[EndpointItem]


class RouteItem(BaseModel):
    """Names that clients may use, and the endpoints behind them."""

    service: str
    served_name: str
    aliases: list[str]
    policy: str
    priority: int
    max_concurrency: int | None
    endpoints: list[str]


class RoutesDocument(Document):
    """The route table in force, sorted by service."""

    routes_digest: str | None
    routes: list[RouteItem]


class ServiceItem(BaseModel):
    """One service and how it stands."""

    service: str
    served_name: str
    aliases: list[str]
    desired: int
    ready: int
    in_flight: int
    endpoints: list[EndpointItem]


class ServicesDocument(Document):
    """All services, sorted by name."""

    services: list[ServiceItem]


class ReplicaItem(BaseModel):
    """One replica: its endpoint, and its units as the nodes reported them."""

    replica: str
    service: str
    state: State | None = Field(description="State of its endpoint; null when no route names it.")
    endpoint: str | None
    units: list[ReplicaUnit]


class ReplicaUnit(BaseModel):
    """A member of a replica on its node."""

    node: str
    unit: UnitView


class ReplicasDocument(Document):
    """All replicas that routes name or that nodes report, sorted by id."""

    replicas: list[ReplicaItem]


class NodesDocument(Document):
    """All nodes of the fleet document, sorted by name."""

    taken_at: float | None = Field(description="When the fleet document was made; seconds of Unix time.")
    nodes: list[NodeView]


class PlanDocument(Document):
    """The plan that was carried out when the bundle was made, as its maker wrote it."""

    plan: dict[str, Any] | None


class FindingsDocument(Document):
    """Everything that checks found, worst first."""

    findings: list[FindingView]


ReplicaItem.model_rebuild()
