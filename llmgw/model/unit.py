# SPDX-License-Identifier: Apache-2.0
"""A unit file as text, and how to tell that its engine is ready."""

from __future__ import annotations

from dataclasses import dataclass, field

from llmgw.model.ids import Digest, NodeName, ReplicaId, UnitName


@dataclass(frozen=True, slots=True)
class Readiness:
    """The two questions of R7 as data, for the module, the apply and the gateway alike.

    `kind` is `http` for a leader; `unit` for members that have no readiness of their own.
    """

    kind: str
    address: str | None = None
    port: int | None = None
    health_path: str = "/health"
    models_path: str = "/v1/models"
    expect_model: str | None = None
    start_timeout_s: int = 60
    ready_timeout_s: int = 600
    listens_while_loading: bool = False
    """The port opens before the weights are loaded, so that a port still closed after `start_timeout_s` is a
    failure.
    """


@dataclass(frozen=True, slots=True)
class UnitFile:
    """One finished unit: text and digests (R5), and the readiness of what it starts."""

    name: UnitName
    node: NodeName
    replica: ReplicaId
    rank: int
    text: str
    process_digest: Digest
    text_digest: Digest
    readiness: Readiness
    stop_timeout_s: int
    environment_files: dict[str, str] = field(default_factory=dict)
    """Path to content of files beside the unit; never secrets (R10)."""
