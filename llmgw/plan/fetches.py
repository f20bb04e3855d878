# SPDX-License-Identifier: Apache-2.0
"""Which node fetches which weights before a replica starts (D12): those that are missing, once a filesystem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmgw.fleet.weights import usable
from llmgw.model.ids import NodeName
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.plan import ActionKind, Fetch
from llmgw.model.replica import ModelSpec
from llmgw.placement.fetch_place import Key, fetch_place, has_there
from llmgw.plan.diff import Change

_STAYS = {ActionKind.KEEP, ActionKind.REWRITE, ActionKind.STOP}
"""What goes on as it is has its weights."""
_What = tuple[Key, str, str | None]


class Fetches:
    """The fetches of one plan. What an earlier step of it brings to a place is there for all that come later."""

    def __init__(self, fleet: FleetSnapshot) -> None:
        self._fleet = fleet
        self._nodes = {node.name: node for node in fleet.nodes}
        self._brought: set[_What] = set()
        self._shared: dict[_What, bool] = {}

    def needed(self, changes: Iterable[Change]) -> tuple[Fetch, ...]:
        """What has to be fetched before these changes, by node and model; nothing is brought by asking."""
        return tuple(sorted(self._needed(changes).values(), key=lambda one: (one.node, one.hf_id, one.revision or "")))

    def bring(self, changes: Iterable[Change]) -> tuple[Fetch, ...]:
        """The same, and from now on it counts as there."""
        found = self._needed(changes)
        self._brought.update(found)
        return tuple(sorted(found.values(), key=lambda one: (one.node, one.hf_id, one.revision or "")))

    def _needed(self, changes: Iterable[Change]) -> dict[_What, Fetch]:
        found: dict[_What, Fetch] = {}
        for model, node in _wanting(changes):
            place = fetch_place(self._nodes[node])
            what = place.key, model.hf_id or "", model.revision
            if what in self._brought or self._is_there(model, self._nodes[node], what):
                continue
            one = Fetch(node, model.hf_id or "", model.revision, place.directory, self._size(model))
            # Of several nodes that share the place, the first by name fetches.
            if what not in found or one.node < found[what].node:
                found[what] = one
        return found

    def _is_there(self, model: ModelSpec, node: Node, what: _What) -> bool:
        if usable(model, (node.facts.weights or ()) if node.facts else ()):
            return True
        place = fetch_place(node)
        if not place.shared:
            return False
        known = self._shared.get(what)
        if known is None:
            # A node that does not answer may have seen them before somebody removed them.
            looked = (one for one in self._fleet.nodes if one.state in (NodeState.OK, NodeState.FROZEN))
            known = self._shared[what] = any(has_there(one, model, place) for one in looked)
        return known

    def _size(self, model: ModelSpec) -> int | None:
        """Bytes of the model's weights: as any node has them, else as the catalog says."""
        sizes = [
            one.size_bytes
            for node in self._fleet.nodes
            if node.facts is not None
            for one in usable(model, node.facts.weights or ())
            if one.size_bytes is not None and one.complete
        ]
        return max(sizes, default=model.size_bytes)


def _wanting(changes: Iterable[Change]) -> Iterator[tuple[ModelSpec, NodeName]]:
    """Models that may be fetched, with the nodes that start something of them."""
    for change in changes:
        if change.assignment is None or not change.units or change.action.kind in _STAYS:
            continue
        model = change.assignment.profile.model
        if model.fetch and model.hf_id is not None:
            for member in change.assignment.members:
                yield model, member.node
