# SPDX-License-Identifier: Apache-2.0
"""Replicas over several nodes of which not all have the same version of the engine: one node was upgraded first.

Members of different versions may not understand one another, so a group that serves goes on with what its units say
until all its nodes have one version; the folder of the old one is still there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmgw.engines.engine_version import engine_version
from llmgw.engines.unit_before import command_before
from llmgw.model.ids import NodeName
from llmgw.model.node import Node
from llmgw.model.placement import Assignment


def mixed_versions(assignment: Assignment, nodes: Mapping[NodeName, Node]) -> tuple[str, ...]:
    """The versions that its members would be started with, sorted, where they differ and all of them have a unit that
    tells with what it goes on; else empty. A version that is not known is `unknown`.
    """
    members = assignment.members
    if len(members) == 1:
        return ()
    found = {engine_version(assignment, one, nodes[one.node]) for one in members}
    if len(found) == 1 or not all(command_before(assignment, one, nodes[one.node]) for one in members):
        return ()
    return tuple(sorted(one or "unknown" for one in found))


def with_versions_that_run(assignment: Assignment, nodes: Mapping[NodeName, Node]) -> Mapping[NodeName, Node]:
    """The nodes as its members are to be started on them: without what is known of the engine while versions differ,
    so that command and version stay what the units say.
    """
    if not mixed_versions(assignment, nodes):
        return nodes
    return {name: _without(node, assignment.profile.engine) for name, node in nodes.items()}


def _without(node: Node, kind: str) -> Node:
    if node.facts is None:
        return node
    engines = tuple(one for one in node.facts.engines or () if one.kind != kind)
    return replace(node, facts=replace(node.facts, engines=engines))
