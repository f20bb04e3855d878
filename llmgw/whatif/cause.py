# SPDX-License-Identifier: Apache-2.0
"""Why a replica has no place in what is supposed, in one sentence: what drove it out, and what the others lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from llmgw.decide import Decision
from llmgw.model.ids import NodeName, ReplicaId
from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Rejection, Unplaced

_FAR = {"class", "node-state"}
"""Nodes with other cards, or that nobody can tell of, are not near."""
_NAMED = 4


def replica_causes(
    decision: Decision, fleet: FleetSnapshot, before: Mapping[ReplicaId, tuple[NodeName, ...]]
) -> dict[ReplicaId, str]:
    """Why each replica without a place left the nodes `before` (nothing, if it was nowhere), and why the nodes that
    come nearest do not take it; left out where nothing is known. O(rejections for each place that replicas left).
    """
    told = {one.replica: one.rejections for one in decision.placement.unplaced}
    nearest: dict[tuple[ReplicaId, tuple[NodeName, ...]], tuple[str, ...]] = {}
    causes = {}
    for one in decision.placement.unplaced:
        was = before.get(one.replica, ())
        key = (one.like or one.replica, was)
        if key not in nearest:
            nearest[key] = tuple(_nearest(told.get(key[0], ()), was))
        driven = (one.held,) if one.held is not None else tuple(_driven_out(one, decision, fleet, was))
        parts = driven if one.held is not None else (*driven, *nearest[key])
        if parts:
            causes[one.replica] = "; ".join(parts)
    return causes


def _driven_out(one: Unplaced, decision: Decision, fleet: FleetSnapshot, before: tuple[NodeName, ...]) -> Iterator[str]:
    displaced = decision.outcome.displaced.get(one.replica) if decision.outcome else None
    gone = [name for name in before if fleet.node(name) is None]
    if gone:
        yield f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} not there"
    elif one.gave_way_to is not None:
        yield f"gives way to {one.gave_way_to}"
    elif one.must_leave is not None:
        yield one.must_leave
    elif displaced is not None:
        yield displaced[1]


def _nearest(rejections: Iterable[Rejection], before: tuple[NodeName, ...]) -> Iterator[str]:
    """What keeps it from most of the nodes that lack the least."""
    places: dict[tuple[NodeName, str], list[Rejection]] = {}
    for rejection in rejections:
        places.setdefault((rejection.node, rejection.profile), []).append(rejection)
    near = {place: those for place, those in places.items() if not _FAR & {each.constraint for each in those}}
    if places and not near:
        yield "no node that is known has such devices"
    # Why it is not where it was is said already.
    near = {(node, profile): those for (node, profile), those in near.items() if node not in before}
    least = min(map(len, near.values()), default=0)
    lacks: dict[str, dict[NodeName, None]] = {}
    for (node, _profile), those in sorted(near.items()):
        if len(those) == least:
            lacks.setdefault("; ".join(each.message.removeprefix(f"{node} ") for each in those), {})[node] = None
    if lacks:
        text = max(lacks, key=lambda message: len(lacks[message]))
        names = list(lacks[text])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{', '.join(names[:_NAMED])}{more}: {text}"
