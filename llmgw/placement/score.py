# SPDX-License-Identifier: Apache-2.0
"""How good a feasible place is: terms in [0, 1] with weights as data. Preferences only; what must hold is in
`feasibility`.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.model.ids import DeviceClass
from llmgw.model.placement import ScoreTerm
from llmgw.placement.feasibility import Ask
from llmgw.placement.ledger import Ledger
from llmgw.placement.topology import Choice

WEIGHTS = {
    "class": 200.0,
    "unused": 10.0,
    "weights-here": 6.0,
    "joined": 5.0,
    "apart": 4.0,
    "node-whole": 3.5,
    "second-node": 3.0,
    "domain-whole": 2.0,
    "packed": 2.0,
    "idle": 1.0,
}
"""`class`: the profile's earlier device class, which outweighs the rest together (C2). `unused`: none of its devices is
one that a replica still has which must leave and has no other place. `weights-here`: the weights are on the node or
on a filer it mounts (P3). `joined`: its devices are joined by NVLink and sit on one NUMA node (P4). `apart`: few
replicas of the same service here. `node-whole`, `domain-whole`: no node or NVLink domain on which nothing runs is
broken for less than all of it (P10). `second-node`: a service that is on one node alone gets a second one before it
is packed. `packed`: few devices stay free beside it. `idle`: few replicas of any kind.

So the second replica of a service breaks another whole node rather than share the first one's (apart and second-node
outweigh node-whole), and further ones fill the nodes that are broken already.
"""

_CLASSES_TOLD_APART = 8
_SPARED = {True: 0.0, False: 0.5, None: 1.0}
"""A replica of one node spares NVLink domains: whole ones most, and before all others come cards that can join none."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where on a node a member would be: the class and the devices chosen, None and none on CPU."""

    device_class: DeviceClass | None = None
    choice: Choice | None = None


def score(ask: Ask, ledger: Ledger, spot: Spot, *, domain_whole: bool | None = None) -> tuple[ScoreTerm, ...]:
    """The terms for one node on which the ask fits. `domain_whole`: whether nothing runs on any node of its NVLink
    domain; None where it is no ready member of one.
    """
    choice = spot.choice
    name = ledger.node.name
    alone = len(ask.tally.nodes) == 1 and name in ask.tally.nodes
    breaks = choice is not None and ledger.is_whole() and len(choice.positions) < len(ledger.node.devices or ())
    one_node = ask.profile.nodes == 1
    values = {
        "class": 1.0 if spot.device_class is None else _class(ask, spot.device_class),
        "unused": float(choice is None or not ledger.vacating & sum(1 << one for one in choice.positions)),
        "weights-here": float(name in ask.holders),
        "joined": 1.0 if choice is None else choice.quality,
        "apart": 1.0 / (1 + ledger.replicas.get(ask.service.name, 0)),
        "node-whole": float(not breaks),
        "second-node": float(not alone),
        "domain-whole": 1.0 if choice is None or not one_node else _SPARED[domain_whole],
        "packed": 1.0 if choice is None else 1.0 / (1 + choice.beside),
        "idle": 1.0 / (1 + ledger.total),
    }
    return tuple(ScoreTerm(term, values[term], weight) for term, weight in WEIGHTS.items())


def _class(ask: Ask, device_class: DeviceClass) -> float:
    return 1.0 - min(ask.profile.devices.index(device_class), _CLASSES_TOLD_APART - 1) / _CLASSES_TOLD_APART


def total(terms: tuple[ScoreTerm, ...]) -> float:
    """The weighted sum, rounded so that equal places are equal whatever order the terms were summed in."""
    return round(sum(term.value * term.weight for term in terms), 9)
