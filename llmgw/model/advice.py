# SPDX-License-Identifier: Apache-2.0
"""What a plan advises and does not do: moves that would make room for what has no place (P10)."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.model.ids import DeviceClass, NodeName, ProfileName, ReplicaId, ServiceName


@dataclass(frozen=True, slots=True)
class AdvisedMove:
    """One replica that would move, and its price: it is started anew on as many devices, and weights may be missing."""

    replica: ReplicaId
    from_nodes: tuple[NodeName, ...]
    to_nodes: tuple[NodeName, ...]
    devices: int
    ready_timeout_s: int
    """The longest that it may take to load."""
    nodes_without_weights: tuple[NodeName, ...] = ()
    weights_bytes: int | None = 0
    """Weights that such a node would have to get first; None when their size is unknown."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Moves that would give a replica a place: on these nodes, by this profile."""

    replica: ReplicaId
    service: ServiceName
    profile: ProfileName
    nodes: tuple[NodeName, ...]
    moves: tuple[AdvisedMove, ...]


@dataclass(frozen=True, slots=True)
class FreeDevices:
    """What is free of one class after a plan: `most` on one node tells fragmentation."""

    device_class: DeviceClass
    free: int
    nodes: int
    """Nodes that have any free."""
    most: int
