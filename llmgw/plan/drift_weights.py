# SPDX-License-Identifier: Apache-2.0
"""Weights that a replica was started with and that its node does not see any more (D12).

Only where the unit names a path that a search of the node must come by: what was not looked for, or may not have been
seen, is unknown and not gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llmgw.engines.sim import KIND as SIMULATOR
from llmgw.engines.unit_before import given_before, model_on
from llmgw.model.ids import NodeName
from llmgw.model.node import Node
from llmgw.model.placement import Assignment

_FELL_SHORT = frozenset(
    {"weights-search-cut", "weights-too-many", "weights-denied", "weights-unreadable", "storage-hangs"}
)
"""Findings after which weights may be there that were not seen."""
_LEVELS = 3
"""So many directories deep below a model directory everything is seen; caches have a layout of their own."""
_CACHED = "models--"


def gone_weights(assignment: Assignment, nodes: Mapping[NodeName, Node]) -> Iterator[tuple[NodeName, str, str]]:
    """Node, model and sentence for every member of a replica whose weights are gone from its node. Nothing for models
    that llmgw fetches, which come back by themselves, and for simulators, which read none.
    """
    model = assignment.profile.model
    if model.fetch or assignment.profile.engine == SIMULATOR:
        return
    for member in assignment.members:
        node = nodes.get(member.node)
        if node is None or not _was_searched(node):
            continue
        given = given_before(assignment, member, node)
        if given is None or not _is_gone(given, node) or given != model_on(assignment, member, node):
            continue
        sentence = f"the weights of {model.name} are not at {given} any more: {assignment.replica} could not restart"
        yield node.name, model.name, sentence


def _was_searched(node: Node) -> bool:
    """Whether the node was told to look, and did so to the end."""
    facts = node.facts
    looked = facts is not None and facts.weights is not None and bool(node.settings.model_dirs)
    return looked and not any(one.code in _FELL_SHORT for one in (facts.findings if facts else ()))


def _is_gone(given: str, node: Node) -> bool:
    seen = (node.facts.weights or ()) if node.facts else ()
    # An engine may be given a directory in which several weights are seen, or one of several files.
    if any(_within(one.path, given) or _within(given, one.path) for one in seen):
        return False
    return any(_is_searched(given, directory) for directory in node.settings.model_dirs)


def _is_searched(path: str, directory: str) -> bool:
    """Whether a search of that model directory comes by the path."""
    if not _within(path, directory):
        return False
    below = path[len(directory.rstrip("/")) :].strip("/").split("/")
    return len(below) <= _LEVELS or below[0].startswith(_CACHED)


def _within(path: str, directory: str) -> bool:
    """Whether a path is that directory, or below it."""
    path, directory = path.rstrip("/"), directory.rstrip("/")
    return path == directory or path.startswith(f"{directory}/")
