# SPDX-License-Identifier: Apache-2.0
"""One refusal, as the functions that propose remedies get it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from llmgw.model.ids import NodeName
from llmgw.model.node import Node
from llmgw.model.placement import Assignment
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.model.why import Check
from llmgw.placement.ledger import Ledger
from llmgw.placement.memory.device_memory import Appetite
from llmgw.placement.why.edits import Edit

GB = 10**9


@dataclass(frozen=True, slots=True)
class Asked:
    """One node that refuses a replica by one profile, and the constraint in question."""

    service: ServiceSpec
    profile: ProfileSpec
    ledger: Ledger
    check: Check
    port_range: tuple[int, int]
    last: Mapping[NodeName, tuple[Assignment, ...]]
    """By node: kept replicas that their services would give up first, of services that are not more important."""
    alike: int = 0
    """Members on the node that are placed by the same profile: what is changed of it is changed for them."""
    ahead: int = 0
    """Replicas of the service that have no place either and come first."""
    appetite: Appetite | None = None
    """What the profile needs of devices' memory; None when it is not known."""

    @property
    def entry(self) -> str:
        """The profile in the catalog."""
        return f"profiles.{self.profile.name}"

    @property
    def node(self) -> Node:
        """The node as it is."""
        return self.ledger.node


Fix = Callable[[Asked], Iterator[Edit]]
"""Proposes what could be done about one constraint on one node."""
