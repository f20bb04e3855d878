# SPDX-License-Identifier: BSD-2-Clause
"""What a gateway host holds and says (R11, P9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class PublishedEndpoint:
    """One endpoint that a published bundle names. `api_key_env` is the name of a variable, never a secret (R10)."""

    id: str
    service: str
    address: str
    port: int
    engine: Optional[str] = None
    model: Optional[str] = None
    draining: Optional[bool] = None
    health_path: Optional[str] = None
    models_path: Optional[str] = None
    process_digest: Optional[str] = None
    api_key_env: Optional[str] = None
    device_class: Optional[str] = None
    devices: Optional[int] = None
    max_model_len: Optional[int] = None


@dataclass(frozen=True)
class PublishedBundle:
    """The bundle a gateway host holds (R11): its generation, the digest of its routes, and what they lead to (None:
    not told, or unreadable).
    """

    path: str
    generation: Optional[int] = None
    routes_digest: Optional[str] = None
    written_at: Optional[float] = None
    endpoints: Optional[Tuple[PublishedEndpoint, ...]] = None


@dataclass(frozen=True)
class EndpointHealth:
    """What the gateway on this host says of one endpoint; evidence for lost nodes (P9)."""

    endpoint: str
    state: Optional[str] = None
    in_flight: Optional[int] = None
    since: Optional[float] = None
    detail: Optional[str] = None  # why it is not ready


@dataclass(frozen=True)
class GatewayFacts:
    """The gateway of a gateway host: `reachable` is None when it was not asked."""

    reachable: Optional[bool] = None
    generation: Optional[int] = None
    endpoints: Tuple[EndpointHealth, ...] = ()
    bundle: Optional[PublishedBundle] = None
