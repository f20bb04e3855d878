# SPDX-License-Identifier: Apache-2.0
"""What the loss of one node, rack or NVLink domain would mean."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.model.ids import NodeName, ServiceName


@dataclass(frozen=True, slots=True)
class Loss:
    """What one service loses: replicas that have a place now, those lost, and those of the lost that would have none
    any more. `wanted`: how many the catalog asks for.
    """

    service: ServiceName
    replicas: int
    lost: int
    short: int
    wanted: int

    @property
    def down(self) -> bool:
        """Whether nothing of it would serve until replicas are placed anew."""
        return self.lost == self.replicas


@dataclass(frozen=True, slots=True)
class Failure:
    """Nodes that would be lost at once, and what services lose; sorted by service. `kind`: `node`, `domain` (NVLink) or
    the name of a label.
    """

    kind: str
    name: str
    nodes: tuple[NodeName, ...]
    losses: tuple[Loss, ...]

    @property
    def short(self) -> tuple[Loss, ...]:
        """The services that would stay short of replicas."""
        return tuple(one for one in self.losses if one.short)
