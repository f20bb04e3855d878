# SPDX-License-Identifier: Apache-2.0
"""A unit file as text, and how to tell that its engine is ready."""

from __future__ import annotations

from dataclasses import dataclass, field

from llmgw.model.ids import Digest, NodeName, ReplicaId, UnitName
from llmgw.nodekit import readiness

Readiness = readiness.Readiness
"""The two questions of R7 as data, for the module, the apply and the gateway alike: the nodes' own class."""


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
