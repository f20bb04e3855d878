# SPDX-License-Identifier: Apache-2.0
"""Names that must not be mixed up: each id is a type of its own."""

from __future__ import annotations

from typing import NewType

NodeName = NewType("NodeName", str)
"""An inventory host."""

DeviceId = NewType("DeviceId", str)
"""UUID of a card or of a MIG instance (P7)."""

DeviceClass = NewType("DeviceClass", str)
"""`h200-141g`, `a100-80g-mig-3g.40gb` (D4, D5)."""

ServiceName = NewType("ServiceName", str)
ModelName = NewType("ModelName", str)
ProfileName = NewType("ProfileName", str)
EngineKind = NewType("EngineKind", str)

ReplicaId = NewType("ReplicaId", str)
"""`chat/0`: service and number."""

UnitName = NewType("UnitName", str)
"""`llmgw-chat.0.0.service`."""

EndpointId = NewType("EndpointId", str)
"""`chat/0@n1`: replica and the node of its leader."""

Digest = NewType("Digest", str)
"""`sha256:` and 64 hex digits."""
