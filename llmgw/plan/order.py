# SPDX-License-Identifier: Apache-2.0
"""The order in which a plan is carried out: waves of steps that never take away more than a rollout allows (R4).

First what nobody wants goes (routes first, then a drain, then the stop), then new and moved replicas come, then
replicas change in place, at most `max_unavailable` of a service at a time. Every wave ends with routes that name
exactly what serves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from llmgw.model.ids import EndpointId, ReplicaId
from llmgw.model.plan import ActionKind, FetchWeights, Publish, StartMembers, Step, StopMembers, Wave
from llmgw.model.replica import Catalog
from llmgw.model.unit import UnitFile
from llmgw.plan.diff import Change
from llmgw.plan.fetches import Fetches
from llmgw.routes.build import Routes, Serving, endpoint_id

DRAIN_DEFAULT_S = 60
"""Drain deadline of a replica whose service the catalog no longer has."""
_NAMED = 6
"""Replicas that a wave's title names."""


class Order:
    """Builds the waves of one plan. `serving` is what gateways should name now; it changes as waves are added."""

    def __init__(self, catalog: Catalog, serving: Iterable[Serving], fetches: Fetches) -> None:
        self._catalog = catalog
        self._fetches = fetches
        self._routes = Routes(catalog, serving)
        self.waves: list[Wave] = []

    def stop(self, changes: Sequence[Change]) -> None:
        """A wave that takes surplus replicas out of the routes, drains and removes them."""
        removes = tuple(sorted(unit for change in changes for unit in change.removes))
        gone = _reached(changes)
        if not removes:
            # Where nothing can be stopped now, nothing is sent there either.
            for name in gone:
                self._routes.remove(name)
            return
        steps = [*self._without(gone, changes), StopMembers(removes)]
        self.waves.append(Wave(f"stop {_names(changes)}", tuple(steps)))

    def start(self, changes: Sequence[Change], arrivals: Mapping[ReplicaId, Serving]) -> None:
        """Waves that start new and moved replicas, route to them, then drain and remove the ones they replace.

        What needs a device of another that moves comes after it, and what needs no fetching of weights before what
        does: that may take hours. Where replicas wait for one another, or for themselves, they stop before they start.
        """
        waiting = {change.action.replica: change for change in changes}
        while waiting:
            held = _holders(waiting.values())
            free = [one for one in waiting.values() if not _waits(one, held)]
            apart = [one for one in free if not (devices_needed(one) & devices_held(one) or _overlaps(one))]
            apart = [one for one in apart if not self._fetches.needed([one])] or apart
            if apart:
                self._start(apart, arrivals)
            else:
                self._restart_elsewhere(free or list(waiting.values()), arrivals)
            for change in apart or free or list(waiting.values()):
                del waiting[change.action.replica]

    def _start(self, changes: Sequence[Change], arrivals: Mapping[ReplicaId, Serving]) -> None:
        steps: list[Step] = [*self._fetch(changes), StartMembers(_units(changes)), self._arrive(changes, arrivals)]
        moved = [change for change in changes if change.action.kind is ActionKind.MOVE and change.instance is not None]
        steps += self._gone(moved)
        self.waves.append(Wave(f"start {_names(changes)}", tuple(steps)))

    def _restart_elsewhere(self, changes: Sequence[Change], arrivals: Mapping[ReplicaId, Serving]) -> None:
        steps = [*self._fetch(changes), *self._gone(changes)]
        steps += [StartMembers(_units(changes)), self._arrive(changes, arrivals)]
        self.waves.append(Wave(f"move {_names(changes)}", tuple(steps)))

    def _gone(self, changes: Sequence[Change]) -> list[Step]:
        """The steps that drain and remove what moved replicas leave behind."""
        removes = tuple(sorted(unit for change in changes for unit in change.removes))
        steps = self._without(_reached(changes), changes)
        return [*steps, StopMembers(removes)] if removes else steps

    def update(self, changes: Sequence[Change], arrivals: Mapping[ReplicaId, Serving]) -> None:
        """Waves that restart replicas in place. Dead ones come first, all together: they take nothing away."""
        dead = [change for change in changes if not change.running]
        alive = [change for change in changes if change.running]
        for batch in filter(None, [dead, *_batches(alive)]):
            ids = [_endpoint(change) for change in batch if change.running]
            steps = self._fetch(batch)
            if ids:
                steps.append(self._publish(ids, max(_drain_s(change) for change in batch)))
            steps.append(StartMembers(_units(batch)))
            steps.append(self._arrive(batch, arrivals))
            self.waves.append(Wave(f"update {_names(batch)}", tuple(steps)))

    def rewrite(self, changes: Sequence[Change]) -> None:
        """One wave that replaces the text of units whose engines go on."""
        if changes:
            self.waves.append(Wave(f"rewrite {_names(changes)}", (StartMembers(_units(changes)),)))

    def _fetch(self, changes: Sequence[Change]) -> list[Step]:
        """The step that brings the weights that these replicas lack, ahead of all others: until they are there,
        nothing that serves is touched.
        """
        found = self._fetches.bring(changes)
        return [FetchWeights(found)] if found else []

    def publish(self) -> Publish:
        """The routes as they are after all waves so far."""
        return self._publish()

    def _publish(self, draining: Iterable[EndpointId] = (), drain_s: int = 0) -> Publish:
        ids = tuple(sorted(draining))
        return Publish(self._routes.table(frozenset(ids)), ids, drain_s if ids else 0)

    def _arrive(self, changes: Iterable[Change], arrivals: Mapping[ReplicaId, Serving]) -> Publish:
        """Routes that name what has just started; the step after it waits until the gateways have seen it answer."""
        ids = []
        for change in changes:
            arrived = arrivals.get(change.action.replica)
            if arrived is not None:
                ids.append(self._routes.add(arrived))
        return replace(self._publish(), ready=tuple(sorted(ids)))

    def _without(self, ids: Iterable[EndpointId], changes: Sequence[Change]) -> list[Step]:
        """One step that names endpoints no more and waits for what they have in flight; none when none of them was
        named.
        """
        named = sorted({name for name in ids if name in self._routes})
        for name in named:
            self._routes.remove(name)
        routes = self._routes.table()
        wait_s = max((_drain_s(change, self._catalog) for change in changes), default=0)
        return [Publish(routes, tuple(named), wait_s)] if named else []


def devices_held(change: Change) -> frozenset[tuple[str, str]]:
    """The devices that a replica has now and gives up, each with its node."""
    if change.instance is None:
        return frozenset()
    return frozenset((part.node.name, device) for part in change.instance.parts for device in part.unit.devices)


def devices_needed(change: Change) -> frozenset[tuple[str, str]]:
    """The devices that a replica will have, each with its node."""
    members = change.assignment.members if change.assignment is not None else ()
    return frozenset((member.node, device) for member in members for device in member.devices)


def _holders(changes: Iterable[Change]) -> dict[tuple[str, str], set[str]]:
    """By device the replicas that have it now."""
    found: dict[tuple[str, str], set[str]] = {}
    for change in changes:
        for device in devices_held(change):
            found.setdefault(device, set()).add(change.action.replica)
    return found


def _waits(change: Change, held: Mapping[tuple[str, str], Collection[str]]) -> bool:
    """Whether a replica needs a device that another one still has."""
    own = {change.action.replica}
    return any(not own.issuperset(held.get(device, ())) for device in devices_needed(change))


def _overlaps(change: Change) -> bool:
    """Whether a replica that moves writes a unit anew where it is: some member stays, so that it cannot run twice."""
    parts = change.instance.parts if change.instance is not None else ()
    moves = change.action.kind is ActionKind.MOVE
    return moves and bool(
        {(part.node.name, part.unit.name) for part in parts} & {(u.node, u.name) for u in change.units}
    )


def _reached(changes: Iterable[Change]) -> list[EndpointId]:
    """The endpoints of what is replaced or stopped; members without a leader have none."""
    return [_endpoint(change) for change in changes if change.instance is not None and change.instance.led]


def _endpoint(change: Change) -> EndpointId:
    node = change.instance.node.name if change.instance is not None else change.action.nodes[0]
    return endpoint_id(change.action.replica, node)


def _units(changes: Iterable[Change]) -> tuple[UnitFile, ...]:
    return tuple(sorted((unit for change in changes for unit in change.units), key=lambda unit: (unit.node, unit.name)))


def _names(changes: Sequence[Change]) -> str:
    names = sorted({change.action.replica for change in changes})
    return ", ".join(names) if len(names) <= _NAMED else f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"


def _drain_s(change: Change, catalog: Catalog | None = None) -> int:
    if change.assignment is not None:
        return change.assignment.service.drain_timeout_s
    services = catalog.services if catalog else ()
    return next(
        (service.drain_timeout_s for service in services if service.name == change.action.service), DRAIN_DEFAULT_S
    )


def _batches(changes: Sequence[Change]) -> list[list[Change]]:
    """Batches of in-place changes: at most `max_unavailable` of each service in each, services side by side."""
    by_service: dict[str, list[list[Change]]] = {}
    for change in changes:
        size = change.assignment.service.rollout.max_unavailable if change.assignment else 1
        batches = by_service.setdefault(change.action.service, [[]])
        if len(batches[-1]) >= max(1, size):
            batches.append([])
        batches[-1].append(change)
    rows = zip_longest(*(by_service[name] for name in sorted(by_service)), fillvalue=[])
    return [[change for batch in row for change in batch] for row in rows]
