# SPDX-License-Identifier: Apache-2.0
"""The catalog's `gateway` (C4) and `fleet`: settings that hold for all services."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from llmgw.catalog.schema.base import Entry, Expects
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
    requests_per_minute: Count | None = Field(
        default=None, description="Requests in a minute, over all gateways. Default: no limit.", examples=[600]
    )
    tokens_per_minute: Annotated[int | None, Expects("a whole number, at least 1")] = Field(
        default=None,
        ge=1,
        le=10**12,
        description="Tokens in a minute, in and out, over all gateways. Default: no limit.",
        examples=[1_000_000],
    )
    priority: Annotated[int, Expects("a whole number from -1000 to 1000")] = Field(
        default=0,
        ge=-1000,
        le=1000,
        description="Of requests that wait for the same service, those of higher priority go first.",
        examples=[10],
    )


class Timeouts(Entry):
    """How long the gateway waits for a replica."""

    connect: Interval = Field(default=2.0, description="Until a connection to a replica stands.", examples=["2s"])
    first_byte: Interval = Field(default=600.0, description="Until a replica begins to answer.", examples=["10m"])
    idle: Interval = Field(default=120.0, description="Between two pieces of an answer.", examples=["2m"])
    total: Interval | None = Field(
        default=None, description="For a request as a whole. Default: as long as pieces come.", examples=["1h"]
    )


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
    tls: Tls | None = Field(default=None, description="TLS of the data listener. Default: plain HTTP.")
    keys: Table[Name, ApiKey] = Field(default_factory=dict, description="Clients' keys by name.")
    max_body_mib: Annotated[int, Expects("a whole number of MiB (2^20 bytes), at least 1")] = Field(
        default=32, ge=1, le=4096, description="Largest request that is taken, in MiB.", examples=[32]
    )
    timeouts: Timeouts = Field(default_factory=Timeouts, description="How long the gateway waits for a replica.")
    probe_interval: Interval = Field(
        default=1.0, description="How often each replica is asked whether it is ready.", examples=["1s"]
    )
    workers: Annotated[int, Expects("a whole number from 1 to 128")] = Field(
        default=1, ge=1, le=128, description="Processes that serve clients on each gateway host.", examples=[4]
    )
    access_log: AbsolutePath | None = Field(
        default=None,
        description="File on the gateway hosts that gets one line of JSON a request. Default: no access log.",
        examples=["/var/log/llmgw/access.jsonl"],
    )
    explain_percent: Annotated[float, Expects("a number from 0 to 100")] = Field(
        default=1,
        ge=0,
        le=100,
        description="Of how many requests in a hundred the gateway keeps why they went where they went.",
        examples=[1],
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
