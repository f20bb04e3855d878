# SPDX-License-Identifier: Apache-2.0
"""Which nodes are alike: classes of nodes for which a question about facts or devices has one answer (as Nomad's
computed node classes), told by small numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from llmgw.model.node import Node
from llmgw.model.replica import Catalog
from llmgw.placement.ledger import Ledger
from llmgw.placement.topology import Links, links_of


class Shapes:
    """Gives every ledger its `signature` and `shape`, and keeps the links of each shape. O(devices)."""

    def __init__(self, catalog: Catalog, ledgers: Iterable[Ledger]) -> None:
        profiles = [profile for service in catalog.services for profile in service.profiles]
        self._selected = tuple(sorted({label for profile in profiles for label in profile.node_selector}))
        self._signatures: dict[Hashable, int] = {}
        self._shapes: dict[Hashable, int] = {}
        self._links: dict[int, Links] = {}
        for ledger in ledgers:
            ledger.signature = self._signatures.setdefault(self._signature(ledger.node), len(self._signatures))
            links = links_of(ledger.node.devices or ())
            ledger.shape = self._shapes.setdefault((_devices(ledger.node), links), len(self._shapes))
            self._links[ledger.shape] = links

    def links(self, ledger: Ledger) -> Links:
        """How the node's devices are joined."""
        return self._links[ledger.shape]

    def _signature(self, node: Node) -> Hashable:
        """Everything that constraints which only read facts may ask about (`feasibility.STATIC`)."""
        facts = node.facts
        return (
            node.state,
            node.cordoned,
            node.drained,
            facts is None,
            None if facts is None else (facts.units is None, facts.engines, facts.driver),
            tuple(node.labels.get(label) for label in self._selected),
            _classes(node),
            _unified(node),
        )


def _classes(node: Node) -> Hashable:
    devices = node.devices
    if devices is None:
        return None
    known = {(one.device_class, one.compute_capability or "", one.memory_total_mib or -1) for one in devices}
    return tuple(sorted(known))


def _unified(node: Node) -> Hashable:
    """The host's memory and the classes of the devices that share it; None where none does."""
    facts = node.facts
    gpus = (facts.gpus or ()) if facts is not None else ()
    classes = tuple(sorted({one.device_class or "" for one in gpus if one.unified_memory}))
    if not classes or facts is None:
        return None
    return classes, facts.memory.total_bytes if facts.memory is not None else None


def _devices(node: Node) -> Hashable:
    """Devices by class and whether they work; MIG instances by their numbers too, and with how many cards there are,
    because not every engine finds each (`findable`).
    """
    devices = node.devices
    if devices is None:
        return None
    kinds = tuple((one.device_class, not one.blocked_by and not one.kept_away_by) for one in devices)
    if not any(one.mig for one in devices):
        return kinds
    gpus = node.facts.gpus if node.facts is not None else None
    return kinds, tuple(one.index for one in devices), None if gpus is None else len(gpus)
