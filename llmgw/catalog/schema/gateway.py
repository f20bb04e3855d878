# SPDX-License-Identifier: Apache-2.0
"""The catalog's `gateway` (C4) and `fleet`: settings that hold for all services."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from llmgw.catalog.schema.base import Entry, Expects, Later
from llmgw.catalog.schema.durations import Interval, PositiveSeconds
from llmgw.catalog.schema.types import (
    AbsolutePath,
    Count,
    Listener,
    Many,
    Name,
    Network,
    OneOrMany,
    PortRange,
    ServiceKey,
    Sha256,
    Table,
)

_NO_RATES = "keys are limited by `max_concurrency` alone"
_EXAMPLE_HASH = "0123456789abcdef" * 4


class Tls(Entry):
    """Certificate and key of the data listener, as files on the gateway hosts."""

    certificate: AbsolutePath = Field(
        description="Certificate chain in PEM.", examples=["/etc/llmgw/tls/fullchain.pem"]
    )
    key: AbsolutePath = Field(description="Private key in PEM.", examples=["/etc/llmgw/tls/privkey.pem"])


class ApiKey(Entry):
    """A client's key. With no keys at all the gateway asks for none."""

    sha256: Sha256 = Field(
        description='SHA-256 of the key, never the key itself: `read -rs KEY; printf %s "$KEY" | sha256sum`.',
        examples=[_EXAMPLE_HASH],
    )
    services: OneOrMany[ServiceKey] = Field(
        default=(), min_length=1, description="Services that the key may use. Default: all.", examples=[["chat"]]
    )
    max_concurrency: Count | None = Field(
        default=None, description="Requests in flight at a time. Default: no limit.", examples=[8]
    )
    requests_per_minute: Annotated[Count | None, Later(_NO_RATES)] = Field(
        default=None, description="Requests in a minute.", examples=[600]
    )
    tokens_per_minute: Annotated[Annotated[int, Expects("a whole number, at least 1")] | None, Later(_NO_RATES)] = (
        Field(default=None, ge=1, le=10**12, description="Tokens in a minute, in and out.", examples=[1_000_000])
    )


class Timeouts(Entry):
    """How long the gateway waits for a replica."""

    connect: Interval = Field(default=2.0, description="Until a connection to a replica stands.", examples=["2s"])
    first_byte: Interval = Field(default=600.0, description="Until a replica begins to answer.", examples=["10m"])
    idle: Interval = Field(default=120.0, description="Between two pieces of an answer.", examples=["2m"])


class Gateway(Entry):
    """Listeners, keys and limits of every gateway host."""

    listen: Listener = Field(default="0.0.0.0:8080", description="Where clients call.", examples=["0.0.0.0:8080"])
    admin_listen: Listener = Field(
        default="127.0.0.1:8081",
        description="Admin API, metrics and console. Beyond the host itself only with `admin_token_sha256`.",
        examples=["127.0.0.1:8081"],
    )
    admin_token_sha256: Sha256 | None = Field(
        default=None,
        description="SHA-256 of the token that the admin listener asks for, made like that of a key.",
        examples=[_EXAMPLE_HASH],
    )
    tls: Annotated[Tls | None, Later("the gateway serves plain HTTP, put a TLS proxy in front of it")] = Field(
        default=None, description="TLS of the data listener."
    )
    keys: Table[Name, ApiKey] = Field(default_factory=dict, description="Clients' keys by name.")
    max_body_mib: Annotated[int, Expects("a whole number of MiB (2^20 bytes), at least 1")] = Field(
        default=32, ge=1, le=4096, description="Largest request that is taken, in MiB.", examples=[32]
    )
    timeouts: Timeouts = Field(default_factory=Timeouts, description="How long the gateway waits for a replica.")
    probe_interval: Interval = Field(
        default=1.0, description="How often each replica is asked whether it is ready.", examples=["1s"]
    )


class Fleet(Entry):
    """Rules for all nodes."""

    port_range: PortRange = Field(
        default="18000-18999",
        description="Ports that engines are given, outside the range that the kernel hands to clients (32768-60999).",
        examples=["18000-18999"],
    )
    engines_reachable_from: Many[Network] = Field(
        default=(),
        description="Networks from which engines answer, and to which they may talk, beside their own node and the "
        "other members of their replica; `gateways` stands for all gateway hosts. Default: no restriction. Only in "
        "scope `system`, and where the kernel can.",
        examples=[["gateways", "10.0.0.0/8"]],
    )
    lost_after: PositiveSeconds = Field(
        default=300,
        description="How long a node must be out of reach, its replicas silent too, before they are placed elsewhere.",
        examples=["5m"],
    )
