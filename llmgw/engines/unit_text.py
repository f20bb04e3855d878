# SPDX-License-Identifier: Apache-2.0
"""The unit that a member has on its node already."""

from __future__ import annotations

from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member


def unit_text(assignment: Assignment, member: Member, node: Node) -> str:
    """Its text; empty where there is no such unit, or where it is unknown."""
    for unit in (node.facts.units or ()) if node.facts else ():
        if unit.replica == assignment.replica and (unit.rank or 0) == member.rank and unit.text:
            return unit.text
    return ""


def has_failed(assignment: Assignment, member: Member, node: Node) -> bool:
    """Whether it has failed for good: what it was told is then no longer what runs."""
    return any(
        unit.replica == assignment.replica and (unit.rank or 0) == member.rank and unit.active_state == "failed"
        for unit in ((node.facts.units or ()) if node.facts else ())
    )
