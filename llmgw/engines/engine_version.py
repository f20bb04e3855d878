# SPDX-License-Identifier: Apache-2.0
"""Of which version the engine of a member is."""

from __future__ import annotations

from llmgw.engines.base import command_of
from llmgw.engines.registry import engine_of
from llmgw.engines.unit_text import unit_text
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.nodekit import unitfile


def engine_version(assignment: Assignment, member: Member, node: Node) -> str | None:
    """The engine's version on the node; when it cannot be told now, the one the unit was written for, so that nothing
    restarts for it.
    """
    if node.facts is None:
        return None
    engine = engine_of(assignment.profile.engine)
    command = None if engine is None else command_of(engine.traits, node)
    for one in node.facts.engines or ():
        if one.kind == assignment.profile.engine and one.command == command and one.version is not None:
            return one.version
    written = unitfile.parse(unit_text(assignment, member, node))
    return written.engine_version if written.engine in {None, assignment.profile.engine} else None
