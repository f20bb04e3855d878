# SPDX-License-Identifier: Apache-2.0
"""What the sections of one unit are written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmgw.engines.base import Launch
from llmgw.engines.unit_text import unit_text
from llmgw.model.ids import Digest, NodeName, UnitName
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec


@dataclass(frozen=True, slots=True)
class MemberUnit:
    """One member of a placed replica and how it is started. `nodes` holds every node of the replica."""

    name: UnitName
    assignment: Assignment
    member: Member
    nodes: Mapping[NodeName, Node]
    launch: Launch
    process: Digest
    drain_s: int
    """Longest time that any member of the replica takes to end."""
    group: Digest | None = None
    """The group digest; None for the only member of its replica."""
    access: tuple[str, ...] | None = None
    """Networks and addresses from which engines may be reached; None: anyone."""

    @property
    def node(self) -> Node:
        """The node that it runs on."""
        return self.nodes[self.member.node]

    @property
    def text_before(self) -> str:
        """What the unit says on its node now; empty where there is none, or it is unknown."""
        return unit_text(self.assignment, self.member, self.node)

    @property
    def profile(self) -> ProfileSpec:
        """The profile that it serves."""
        return self.assignment.profile

    @property
    def system(self) -> bool:
        """Whether the system's manager runs it, not a user's."""
        return self.node.settings.scope == "system"

    @property
    def identifier(self) -> str:
        """The unit's name without its suffix: what its output is found by in the journal."""
        return self.name.removesuffix(".service")
