# SPDX-License-Identifier: Apache-2.0
"""How good a feasible place is: terms in [0, 1] with weights as data. Preferences only; what must hold is in
`feasibility`.
"""

from __future__ import annotations

from llmgw.model.placement import ScoreTerm
from llmgw.placement.feasibility import Ask, chosen_class
from llmgw.placement.ledger import Ledger

WEIGHTS = {
    "class": 8.0,
    "apart": 4.0,
    "weights-here": 3.0,
    "packed": 2.0,
    "idle": 1.0,
}
"""`class`: the profile's earlier device class. `apart`: few replicas of the same service here. `weights-here`: the
weights are on the
node or on a filer it mounts (P3). `packed`: few devices stay free beside it, so that whole nodes stay whole (P10).
`idle`: few
replicas of any kind."""


def score(ask: Ask, ledger: Ledger) -> tuple[ScoreTerm, ...]:
    """The terms for one node on which the ask fits."""
    values = {
        "class": _class(ask, ledger),
        "apart": 1.0 / (1 + ledger.replicas.get(ask.service.name, 0)),
        "weights-here": float(has_weights(ask, ledger)),
        "packed": _packed(ask, ledger),
        "idle": 1.0 / (1 + ledger.total),
    }
    return tuple(ScoreTerm(name, values[name], weight) for name, weight in WEIGHTS.items())


def total(terms: tuple[ScoreTerm, ...]) -> float:
    """The weighted sum."""
    return sum(term.value * term.weight for term in terms)


def has_weights(ask: Ask, ledger: Ledger) -> bool:
    """Whether complete weights of the model were seen on the node. A node that never looked ranks like one that has
    none (D12).
    """
    model = ask.profile.model
    names = {name for name in (model.hf_id, model.path) if name}
    if not names:
        return False
    seen = (ledger.node.facts.weights or ()) if ledger.node.facts else ()
    return any(
        weights.complete is not False
        and (
            weights.model in names or weights.path in names or any(weights.path.endswith(f"/{name}") for name in names)
        )
        for weights in seen
    )


def _class(ask: Ask, ledger: Ledger) -> float:
    chosen = chosen_class(ask, ledger)
    if chosen is None:
        return 1.0
    return 1.0 - ask.profile.devices.index(chosen) / len(ask.profile.devices)


def _packed(ask: Ask, ledger: Ledger) -> float:
    chosen = chosen_class(ask, ledger)
    if chosen is None:
        return 1.0
    return 1.0 / (1 + len(ledger.free_devices(chosen)) - ask.profile.gpus)
