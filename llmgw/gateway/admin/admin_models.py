# SPDX-License-Identifier: Apache-2.0
"""The documents of the admin API (G10): versioned, typed, null where something is not known."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from llmgw.gateway.admin.fleet_view import FindingView, NodeView, UnitView
from llmgw.gateway.endpoints.health import State

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
    restart_needed: list[str] = Field(
        description="Settings that changed since the start and need a restart, or with workers a reload, to count."
    )
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


class RecordItem(BaseModel):
    """One request when it is over, as the access log has it; null where it is not known."""

    request_id: str
    at: float = Field(description="When its first byte came; seconds of Unix time.")
    method: str
    path: str = Field(description="Without the query.")
    service: str | None = None
    model: str | None = Field(default=None, description="As the client named it.")
    key: str | None = Field(default=None, description="Name of its API key in the catalog.")
    endpoint: str | None = Field(default=None, description="The one that answered, or was tried last.")
    status: int | None = Field(default=None, description="As sent to the client.")
    reason: str | None = Field(default=None, description="Why it was refused, or why the last attempt failed.")
    stream: bool | None = None
    attempts: int | None = Field(default=None, description="Engines that it was sent to.")
    queue_s: float | None = Field(default=None, description="Seconds that it waited for room.")
    first_byte_s: float | None = Field(default=None, description="Seconds from its first byte to the answer's first.")
    duration_s: float | None = Field(default=None, description="Seconds from its first byte to the answer's last.")
    bytes_in: int | None = Field(default=None, description="Of the request's body.")
    bytes_out: int | None = Field(default=None, description="Of the answer's body.")
    prompt_tokens: int | None = Field(default=None, description="As the engine counted them.")
    completion_tokens: int | None = Field(default=None, description="As the engine counted them.")
    end: str | None = Field(
        default=None, description="How it ended: complete, client_left, cut or refused; null when nobody saw."
    )
    trace_id: str | None = Field(default=None, description="Of its traceparent header.")


class TermsItem(BaseModel):
    """What the request would have cost at one endpoint, as reckoned when the choice was made; seconds."""

    endpoint: str
    total_s: float = Field(description="The sum of the terms, divided by the weight; the cheapest is chosen.")
    queue_s: float = Field(description="Prompts that are before it.")
    prefill_s: float = Field(description="Its own prompt, without what the engine has in its cache.")
    decode_s: float = Field(description="Requests that run there and slow each other down.")
    kv_s: float = Field(description="How full the engine's KV cache is.")
    risk_s: float = Field(
        description="Failed attempts there within half a minute, and seconds that the route table has for it."
    )
    weight: float = Field(description="The endpoint's weight in the catalog.")
    cached_tokens: int = Field(description="Tokens of the prompt that it has seen before.")
    in_flight: int = Field(description="Requests that it had from this process.")
    session: bool = Field(description="Whether the request's session was there before, which counts as cached tokens.")
    reported: bool = Field(description="Whether the engine's own numbers are in it, or only what is assumed.")


class AttemptItem(BaseModel):
    """One choice among the endpoints of a service."""

    service: str
    policy: str
    endpoint: str = Field(description="The one that was chosen.")
    after_s: float = Field(description="Seconds after the request's first byte.")
    considered: int = Field(description="How many endpoints could have been chosen.")
    candidates: list[TermsItem] = Field(
        description="The chosen endpoint and the cheapest of the others, the cheapest first."
    )
    left_out: dict[str, str] = Field(
        description="Endpoints that could not be chosen, and why: a state, or `tried` by an earlier attempt."
    )


class RequestItem(BaseModel):
    """A request whose routing is kept."""

    request_id: str
    at: float = Field(description="When its first byte came; seconds of Unix time.")
    service: str = Field(description="The service that it asked for.")
    via: str | None = Field(
        description="Why another service answers: `split` or `fallback`; null when the one asked for does."
    )
    asked: bool = Field(description="Whether the client asked for the explanation; else it is one of the sample.")
    endpoint: str | None = Field(description="Where it was sent last; null when it was sent nowhere.")
    attempts: int
    record: RecordItem | None = Field(description="What became of it; null while it runs.")


class RequestsDocument(Document):
    """The newest requests whose routing is kept, newest first."""

    share: float = Field(description="Share of requests that are kept, from 0 to 1.")
    requests: list[RequestItem]


class ExplainDocument(Document):
    """Why one request went where it went."""

    request_id: str
    at: float = Field(description="When its first byte came; seconds of Unix time.")
    service: str = Field(description="The service that it asked for.")
    via: str | None = Field(
        description="Why another service answers: `split` or `fallback`; null when the one asked for does."
    )
    asked: bool = Field(description="Whether the client asked for the explanation; else it is one of the sample.")
    attempts: list[AttemptItem] = Field(description="In order; empty when it was sent nowhere.")
    record: RecordItem | None = Field(description="What became of it; null while it runs.")


class FindingsDocument(Document):
    """Everything that checks found, worst first."""

    findings: list[FindingView]


ReplicaItem.model_rebuild()
