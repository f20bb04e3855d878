# SPDX-License-Identifier: Apache-2.0
"""The bundle that a measured llmgw serves by, with each feature on unless it is told off."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from llmgw.model.ids import EndpointId, EngineKind, NodeName, ReplicaId, ServiceName
from llmgw.model.replica import AdmissionSpec, ApiKeySpec, GatewaySpec
from llmgw.model.route import BUNDLE_FORMAT, Bundle, Endpoint, Route, RouteTable
from llmgw.routes.codec import dump_bundle, routes_digest

MODEL, KEY = "m", "k"
NEVER_REACHED = 1_000_000_000
"""As a limit: it is looked at with each request, and stops none."""


@dataclass(frozen=True, slots=True)
class Features:
    """What is on. The defaults are what the comparison with others runs with."""

    keys: bool = True
    key_limits: bool = True
    admission: bool = True
    policy: str = "cost"
    access_log: bool = True
    explain_share: float = 0.01
    workers: int = 1


def endpoints(ports: Iterable[int], device_classes: Sequence[str | None] = ()) -> tuple[Endpoint, ...]:
    """One endpoint a port of this host, each on a node of its own; `device_classes` in the order of the ports."""
    found = []
    for number, port in enumerate(ports):
        node = f"n{number:03d}"
        device_class = device_classes[number] if number < len(device_classes) else None
        found.append(
            Endpoint(
                id=EndpointId(f"chat/{number}@{node}"),
                replica=ReplicaId(f"chat/{number}"),
                node=NodeName(node),
                address="127.0.0.1",
                port=port,
                engine=EngineKind("vllm"),
                model=MODEL,
                device_class=device_class,
                devices=None if device_class is None else 1,
            )
        )
    return tuple(sorted(found, key=lambda one: one.id))


def write(folder: Path, found: tuple[Endpoint, ...], features: Features) -> Path:
    """The path of a bundle with one service that serves `m` to whoever has the key `k`."""
    limit = NEVER_REACHED if features.key_limits else None
    key = ApiKeySpec(
        "bench",
        hashlib.sha256(KEY.encode()).hexdigest(),
        max_concurrency=limit,
        requests_per_minute=limit,
        tokens_per_minute=limit,
    )
    admission = AdmissionSpec(NEVER_REACHED, 1000, 60.0) if features.admission else AdmissionSpec()
    route = Route(ServiceName("chat"), MODEL, (), found, len(found), policy=features.policy, admission=admission)
    table = RouteTable(
        (route,),
        GatewaySpec(
            keys=(key,) if features.keys else (),
            workers=features.workers,
            access_log=str(folder / "access.jsonl") if features.access_log else None,
            explain_share=features.explain_share,
        ),
    )
    path = folder / "bundle.json"
    path.write_text(dump_bundle(Bundle(BUNDLE_FORMAT, 1, routes_digest(table), table, written_at=1000.0)))
    return path
