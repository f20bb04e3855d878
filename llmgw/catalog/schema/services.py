# SPDX-License-Identifier: Apache-2.0
"""The catalog's `services`: what clients call (C3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from llmgw.catalog.schema.base import Entry, Expects
from llmgw.catalog.schema.durations import Interval, PositiveSeconds, Seconds
from llmgw.catalog.schema.types import (
    Count,
    LabelKey,
    Name,
    OneOrMany,
    ServedName,
    ServiceKey,
)

Policy = Literal["cost", "least-inflight", "round-robin", "session", "random"]


class Canary(Entry):
    """What the first replaced replica must do before the others are replaced."""

    answers: Count = Field(
        default=20, description="Good answers that it must have given to clients, through the gateways.", examples=[50]
    )
    max_errors: Annotated[int, Expects("a whole number, at least 0")] = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Failed answers that are borne: errors of the server, broken connections, cut streams.",
        examples=[1],
    )
    timeout: PositiveSeconds = Field(
        default=600,
        description="How long it may take to give them; after it the replica before is put back.",
        examples=["10m"],
    )


class Rollout(Entry):
    """How the replicas of a service are replaced."""

    max_unavailable: Annotated[int, Expects("a whole number, at least 0")] = Field(
        default=1,
        ge=0,
        le=10_000,
        description="Replicas that may be away at a time while they are replaced.",
        examples=[1],
    )
    max_surge: Annotated[int | None, Expects("a whole number, at least 0")] = Field(
        default=None,
        ge=0,
        le=10_000,
        description="Stand-ins: extra replicas that may serve while others are replaced, where devices are free."
        " Default: one where a rollout would else leave nothing that serves, none elsewhere.",
        examples=[1],
    )
    canary: Canary | None = Field(
        default=None,
        description="Replace one replica first, and the others when it has done well. Default: no canary.",
        examples=[{"answers": 50}],
    )


class Admission(Entry):
    """Limits of a service at each gateway."""

    max_concurrency: Count | None = Field(
        default=None,
        description="Requests in flight at a time; others wait, or get 429 where none may wait. Default: no limit.",
        examples=[64],
    )
    max_queue: Count | None = Field(
        default=None,
        description="Requests that may wait for their turn; above it clients get 429. Default: none waits.",
        examples=[128],
    )
    queue_timeout: Interval | None = Field(
        default=None, description="How long a request may wait; then it gets 429. Default: 30s.", examples=["30s"]
    )


class Split(Entry):
    """A share of a service's requests that goes to another service, to try that one."""

    service: ServiceKey = Field(description="The service that gets them.", examples=["chat-next"])
    percent: Annotated[float, Expects("a number from 0 to 100")] = Field(
        ge=0, le=100, description="How many of a hundred requests.", examples=[5]
    )


class Routing(Entry):
    """How a gateway chooses among the replicas of a service."""

    policy: Policy = Field(
        default="cost",
        description="`cost`: the one that is reckoned to answer first, by what it has to do and what it has cached;"
        " `least-inflight`: the one with the fewest requests in flight; `round-robin`: in turn; `session`: like `cost`,"
        " and requests with the same `x-session-id` are taken to be cached where the last one went; `random`.",
        examples=["least-inflight"],
    )
    fallbacks: OneOrMany[ServiceKey] = Field(
        default=(),
        description="Services that answer in its place while none of its own replicas is ready, the first that can.",
        examples=[["chat-small"]],
    )
    split: Split | None = Field(
        default=None,
        description="A share of the requests that another service answers. Default: none.",
        examples=[{"service": "chat-next", "percent": 5}],
    )


class Service(Entry):
    """A name that clients call, and how many replicas of which profiles answer."""

    profiles: OneOrMany[Name] = Field(
        min_length=1,
        description="Names of entries of `profiles`, the preferred first; each replica takes the first that fits.",
        examples=["qwen3-32b-h200", ["qwen3-32b-h200", "qwen3-32b-h100"]],
    )
    replicas: Annotated[int, Expects("a whole number, at least 0")] = Field(
        default=1, ge=0, le=10_000, description="How many replicas run. 0 keeps the service without any.", examples=[2]
    )
    served_name: ServedName | None = Field(
        default=None,
        description="The `model` that clients send. Default: the service's name.",
        examples=["Qwen/Qwen3-32B"],
    )
    aliases: OneOrMany[ServedName] = Field(
        default=(), description="Other names that clients may send.", examples=[["gpt-4o-mini"]]
    )
    spread: LabelKey | None = Field(
        default=None,
        description="`node`, or a label's name such as `rack`: none gets more than an even share, rounded up.",
        examples=["node"],
    )
    priority: Annotated[int, Expects("a whole number from -1000 to 1000")] = Field(
        default=0, ge=-1000, le=1000, description="Services of higher priority are placed first.", examples=[10]
    )
    rollout: Rollout = Field(default_factory=Rollout, description="How replicas are replaced.")
    admission: Admission = Field(default_factory=Admission, description="Limits at each gateway.")
    routing: Routing = Field(default_factory=Routing, description="How a gateway chooses a replica.")
    drain_timeout: Seconds = Field(
        default=60,
        description="How long requests in flight may take to finish before a replica is stopped.",
        examples=["60s"],
    )
