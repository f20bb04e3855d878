# SPDX-License-Identifier: Apache-2.0
"""On which nodes the weights of a model are (P3, D12). Built once a placement, asked once a model."""

from __future__ import annotations

from collections.abc import Iterable

from llmgw.fleet.weights import usable
from llmgw.model.ids import NodeName
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.replica import ModelSpec
from llmgw.nodekit import contract


class WeightsIndex:
    """Weights seen in the fleet, by every name that a model may call them. O(weights seen) to build."""

    def __init__(self, fleet: FleetSnapshot) -> None:
        self._by_name: dict[str, list[Node]] = {}
        self._mounts: dict[str, list[NodeName]] = {}
        self._holders: dict[str, frozenset[NodeName]] = {}
        for node in fleet.nodes:
            for source in _shared_sources(node):
                self._mounts.setdefault(source, []).append(node.name)
            for weights in (node.facts.weights or ()) if node.facts else ():
                for name in _names(weights):
                    self._by_name.setdefault(name, []).append(node)

    def holders(self, model: ModelSpec) -> frozenset[NodeName]:
        """Nodes with complete weights of the model, or that mount the shared filesystem on which another saw them.

        A node that never looked is not among them, and ranks like one that looked and has nothing.
        """
        known = self._holders.get(model.name)
        if known is None:
            known = self._holders[model.name] = self._find(model)
        return known

    def _find(self, model: ModelSpec) -> frozenset[NodeName]:
        found: set[NodeName] = set()
        for node in self._candidates(model):
            for weights in usable(model, (node.facts.weights or ()) if node.facts else ()):
                found.add(node.name)
                found.update(self._mounts.get(_source(node, weights) or "", ()))
        return frozenset(found)

    def _candidates(self, model: ModelSpec) -> Iterable[Node]:
        """Nodes with weights whose name ends as the model's does."""
        names = {_last(name) for name in (model.hf_id, model.path, (model.hf_id or "").replace("--", "/")) if name}
        nodes = {node.name: node for name in sorted(names) for node in self._by_name.get(name, ())}
        return nodes.values()


def _names(weights: contract.Weights) -> set[str]:
    return {_last(name) for name in (weights.model, weights.repository, weights.path) if name}


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2]


def _shared_sources(node: Node) -> Iterable[str]:
    filesystems = (node.facts.filesystems or ()) if node.facts else ()
    return {one.source for one in filesystems if one.shared and one.source and one.answers is not False}


def _source(node: Node, weights: contract.Weights) -> str | None:
    """The source of the shared filesystem that weights are on; None when they are on no shared one."""
    filesystems = (node.facts.filesystems or ()) if node.facts else ()
    return next((one.source for one in filesystems if one.mount_point == weights.mount_point and one.shared), None)
