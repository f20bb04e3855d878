# SPDX-License-Identifier: Apache-2.0
"""The text of the unit that a member has on its node already."""

from __future__ import annotations

from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member


def unit_text(assignment: Assignment, member: Member, node: Node) -> str:
    """The text; empty where there is no such unit, or where it is unknown."""
    for unit in (node.facts.units or ()) if node.facts else ():
        if unit.replica == assignment.replica and (unit.rank or 0) == member.rank and unit.text:
            return unit.text
    return ""
