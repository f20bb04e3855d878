# SPDX-License-Identifier: Apache-2.0
"""What the gateway serves by: a versioned route table, published inside one bundle (R11, G2, Q6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llmgw.model.ids import EndpointId, EngineKind, NodeName, ReplicaId, ServiceName
from llmgw.model.replica import AdmissionSpec, CanarySplit, GatewaySpec

BUNDLE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """URL of a replica's leader. `draining`: no new requests, those in flight finish (G6b)."""

    id: EndpointId
    replica: ReplicaId
    node: NodeName
    address: str
    port: int
    engine: EngineKind
    model: str
    """Name under which the engine serves the weights; readiness asks /v1/models for it (R7)."""
    draining: bool = False
    health_path: str = "/health"
    models_path: str = "/v1/models"
    metrics_path: str = "/metrics"
    process_digest: str | None = None
    """Changes when the replica restarts as something else: caches about the endpoint start anew."""
    api_key_env: str | None = None
    """Name of the variable in the gateway's environment that holds the engine's key; the key itself is never here
    (R10).
    """
    device_class: str | None = None
    devices: int | None = None
    max_model_len: int | None = None
    risk_s: float | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Route:
    """One service: the names clients may call it by, and its endpoints sorted by id. `desired`: replicas asked for."""

    service: ServiceName
    served_name: str
    aliases: tuple[str, ...]
    endpoints: tuple[Endpoint, ...]
    desired: int
    priority: int = 0
    policy: str = "cost"
    admission: AdmissionSpec = field(default_factory=AdmissionSpec)
    fallbacks: tuple[ServiceName, ...] = ()
    split: CanarySplit | None = None


@dataclass(frozen=True, slots=True)
class RouteTable:
    """All routes, sorted by service, and the gateways' settings. `gateways`: how many gateway hosts there are, among
    which limits are divided (G11).
    """

    routes: tuple[Route, ...]
    gateway: GatewaySpec = field(default_factory=GatewaySpec)
    gateways: int = 1


@dataclass(frozen=True, slots=True)
class Bundle:
    """The one file that a gateway host holds. `fleet`, `plan` and `findings` are JSON documents for metrics, API and
    console.

    `routes_digest` covers `routes` alone; `generation` grows with it and never falls (R11).
    """

    format_version: int
    generation: int
    routes_digest: str
    routes: RouteTable
    written_at: float | None = None
    fleet: dict[str, Any] | None = None
    plan: dict[str, Any] | None = None
    findings: tuple[dict[str, Any], ...] = ()
