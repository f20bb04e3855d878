# SPDX-License-Identifier: Apache-2.0
"""The units of a replica as they are now, finished as a plan writes them: they put back what was replaced (R4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from llmgw.engines.registry import engine_of
from llmgw.model.ids import Digest, NodeName, UnitName
from llmgw.model.node import Node, NodeState
from llmgw.model.unit import UnitFile
from llmgw.nodekit import contract, unitchange
from llmgw.plan.diff import Change, observed_unit


def units_before(change: Change, nodes: Mapping[NodeName, Node]) -> tuple[UnitFile, ...]:
    """The units that a replica runs now, finished; none where one of them does not run as its file says, was edited, is
    not known whole, or is on a node that is left alone: a version that llmgw did not write is none to go back to.
    """
    seen = list(_seen(change, nodes))
    leader = next(((node, unit) for node, unit in seen if not unit.rank), None)
    if leader is None or any(node.state is not NodeState.OK for node, _ in seen):
        return ()
    where = leader[1].address or leader[0].address, leader[1].port
    found = [_as_it_is(unit, node.name, change, where) for node, unit in seen]
    whole = [one for one in found if one is not None]
    return tuple(whole) if len(whole) == len(found) else ()


def _seen(change: Change, nodes: Mapping[NodeName, Node]) -> Iterator[tuple[Node, contract.ObservedUnit]]:
    """The units that a replica has now: where it is displaced from, else those that are written anew."""
    if change.instance is not None:
        yield from ((part.node, part.unit) for part in change.instance.parts)
        return
    for one in change.units:
        unit = observed_unit(nodes[one.node], one.name)
        if unit is not None:
            yield nodes[one.node], unit


def _as_it_is(
    unit: contract.ObservedUnit, node: NodeName, change: Change, leader: tuple[str, int | None]
) -> UnitFile | None:
    if unit.text is None or unit.process_digest is None or unit.actual_text_digest is None:
        return None
    if not unitchange.is_running(unit) or unit.edited is not False or unit.running_digest != unit.process_digest:
        return None
    rank = unit.rank or 0
    successor = next((one for one in change.units if one.rank == rank), change.units[0])
    engine = engine_of(unit.engine or "")
    # How it is asked is in no unit: as its successor is, but for what the unit says itself.
    readiness = replace(
        successor.readiness,
        kind="leader" if rank else "http",
        address=leader[0],
        port=leader[1],
        health_path=engine.traits.health_path if engine else successor.readiness.health_path,
        expect_model=unit.served_name,
    )
    return replace(
        successor,
        name=UnitName(unit.name),
        node=node,
        rank=rank,
        text=unit.text,
        process_digest=Digest(unit.process_digest),
        text_digest=Digest(unit.actual_text_digest),
        readiness=readiness,
    )
