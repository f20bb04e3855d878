# SPDX-License-Identifier: Apache-2.0
"""Unit by unit, what an apply would change in file content, with how the unit has drifted (R2). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import unified_diff

from llmgw.decide import Decision
from llmgw.model.ids import NodeName
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.plan import ActionKind
from llmgw.nodekit import contract, unitchange
from llmgw.plan.diff import Change, observed_unit
from llmgw.plan.rollouts_text import withheld


@dataclass(frozen=True, slots=True)
class UnitDiff:
    """One unit that differs: `change` is a word of `unitchange`; `drift` has the kinds of its drift; `diff` are lines.

    `withheld`: it is not changed now, since its rollout is refused. `drop_in`: the directory beside the unit's file of
    which something changes the unit while its own text is as it was written; the change deletes it.
    """

    node: str
    unit: str
    replica: str
    change: str
    drift: tuple[str, ...]
    diff: tuple[str, ...]
    withheld: bool = False
    drop_in: str | None = None


def unit_diffs(decision: Decision, fleet: FleetSnapshot) -> tuple[UnitDiff, ...]:
    """Every unit that an apply would write, start or remove, by node and unit; stand-ins, which come and go, apart."""
    nodes = {node.name: node for node in fleet.nodes}
    drifted: dict[tuple[str, str], list[str]] = {}
    for one in decision.plan.drift:
        drifted.setdefault((one.node, one.subject), []).append(one.kind)
    out = withheld(decision.plan)
    found = []
    for change in decision.changes:
        for node, unit, word, after in _units(change, nodes):
            observed = observed_unit(nodes[node], unit)
            before = observed.text if observed and observed.text else ""
            drift = tuple(drifted.get((node, unit), ()))
            replica = change.action.replica
            lines = _lines(before, after, unit)
            waits = replica in out and change.assignment is not None
            found.append(UnitDiff(node, unit, replica, word, drift, lines, waits, _drop_in(observed)))
    return tuple(sorted(found, key=lambda one: (one.node, one.unit, one.change)))


def _units(change: Change, nodes: dict[NodeName, Node]) -> Iterator[tuple[NodeName, str, str, str]]:
    """Node, name, what happens to it, and the text it gets, of every unit that a change touches."""
    if change.action.kind is ActionKind.STAND_IN:
        return
    for unit in change.units:
        word = unitchange.change(observed_unit(nodes[unit.node], unit.name), unit.process_digest, unit.text_digest)
        if word != unitchange.KEPT:
            yield unit.node, unit.name, word, unit.text
    for node, name in change.removes:
        yield node, name, unitchange.REMOVED, ""


def _drop_in(observed: contract.ObservedUnit | None) -> str | None:
    """What systemd calls the place of drop-ins. Facts say only that there are some, by a unit that is edited although
    its text is the one of its header.
    """
    if observed is None or not observed.edited or observed.actual_text_digest is None:
        return None
    return f"{observed.name}.d/" if observed.actual_text_digest == observed.text_digest else None


def _lines(before: str, after: str, name: str) -> tuple[str, ...]:
    compared: Iterable[str] = unified_diff(
        before.splitlines(), after.splitlines(), f"{name} on the node", f"{name} by the catalog", lineterm=""
    )
    return tuple(compared)
