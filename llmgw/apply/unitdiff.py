# SPDX-License-Identifier: Apache-2.0
"""Unit by unit, what would change in file content, and how nodes have drifted from their units (R2). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import unified_diff

from llmgw.decide import Decision
from llmgw.model.node import FleetSnapshot
from llmgw.nodekit import contract, unitchange
from llmgw.plan.diff import observed_unit


@dataclass(frozen=True, slots=True)
class UnitDiff:
    """One unit that differs: `change` is a word of `unitchange`; `drift` says what somebody or something did to it;
    `diff` are lines.
    """

    node: str
    unit: str
    change: str
    drift: tuple[str, ...]
    diff: tuple[str, ...]


def unit_diffs(decision: Decision, fleet: FleetSnapshot) -> tuple[UnitDiff, ...]:
    """Every unit that an apply would write, start or remove, by node and unit."""
    nodes = {node.name: node for node in fleet.nodes}
    found = []
    for unit in decision.units:
        observed = observed_unit(nodes[unit.node], unit.name)
        change = unitchange.change(observed, unit.process_digest, unit.text_digest)
        if change != unitchange.KEPT:
            before = observed.text if observed and observed.text else ""
            found.append(
                UnitDiff(unit.node, unit.name, change, tuple(_drift(observed)), _lines(before, unit.text, unit.name))
            )
    for change_of in decision.changes:
        for node, name in change_of.removes:
            observed = observed_unit(nodes[node], name)
            before = observed.text if observed and observed.text else ""
            found.append(UnitDiff(node, name, unitchange.REMOVED, tuple(_drift(observed)), _lines(before, "", name)))
    return tuple(sorted(found, key=lambda one: (one.node, one.unit)))


def _drift(observed: contract.ObservedUnit | None) -> Iterator[str]:
    if observed is None:
        return
    if observed.edited:
        yield "edited by hand"
    if observed.actual_text_digest is None:
        yield "its file is missing"
    if observed.enabled is False:
        yield "not enabled"
    if observed.active_state == "failed":
        yield f"failed ({observed.result or 'no result given'})"
    elif not unitchange.is_running(observed):
        yield "stopped"
    elif observed.running_digest not in (None, observed.process_digest):
        yield "runs something older than its file"


def _lines(before: str, after: str, name: str) -> tuple[str, ...]:
    compared: Iterable[str] = unified_diff(
        before.splitlines(), after.splitlines(), f"{name} on the node", f"{name} by the catalog", lineterm=""
    )
    return tuple(compared)
