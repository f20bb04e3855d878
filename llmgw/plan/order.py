# SPDX-License-Identifier: Apache-2.0
"""The order in which a plan is carried out: waves of steps that never take away more than a rollout allows (R4).

First what nobody wants goes (routes first, then a drain, then the stop), then new and moved replicas come, then
running replicas are replaced, no more of a service at a time than its rollout says, with the canary ahead of the others
and with stand-ins that come before and go after. Every wave ends with routes that name exactly what serves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from llmgw.model.ids import EndpointId, NodeName, ReplicaId, ServiceName
from llmgw.model.node import Node
from llmgw.model.plan import (
    ActionKind,
    FetchWeights,
    Floor,
    MarkDevices,
    Publish,
    Quarantine,
    StartMembers,
    Step,
    StopMembers,
    Trial,
    Wave,
)
from llmgw.model.replica import CanarySpec, Catalog
from llmgw.model.unit import UnitFile
from llmgw.plan.diff import Change, devices_held, devices_needed
from llmgw.plan.fetches import Fetches
from llmgw.plan.rollouts import Rolling
from llmgw.plan.undo import units_before
from llmgw.routes.build import Routes, Serving, endpoint_id

DRAIN_DEFAULT_S = 60
"""Drain deadline of a replica whose service the catalog no longer has."""
_NAMED = 6
"""Replicas that a wave's title names."""


class Order:
    """Builds the waves of one plan. `serving` is what gateways should name now; it changes as waves are added."""

    def __init__(
        self,
        catalog: Catalog,
        serving: Iterable[Serving],
        fetches: Fetches,
        nodes: Mapping[NodeName, Node],
        drained: frozenset[EndpointId] = frozenset(),
        *,
        gateways: int = 1,
    ) -> None:
        self._catalog = catalog
        self._fetches = fetches
        self._nodes = nodes
        self._routes = Routes(catalog, serving, drained, gateways=gateways)
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
            together = apart or _few_of_each(free) or _in_a_ring(list(waiting.values()))
            if apart:
                self._start(together, arrivals)
            else:
                self._restart_elsewhere(together, arrivals)
            for change in together:
                del waiting[change.action.replica]

    def _start(self, changes: Sequence[Change], arrivals: Mapping[ReplicaId, Serving]) -> None:
        steps: list[Step] = [*self._fetch(changes), StartMembers(_units(changes)), self._arrive(changes, arrivals)]
        moved = [change for change in changes if change.action.kind is ActionKind.MOVE and change.instance is not None]
        steps += self._gone(moved)
        self.waves.append(Wave(f"start {_names(changes)}", tuple(steps)))

    def _restart_elsewhere(self, changes: Sequence[Change], arrivals: Mapping[ReplicaId, Serving]) -> None:
        steps = [*self._fetch(changes), *self._gone(changes, keep=False)]
        steps += [StartMembers(_units(changes)), self._arrive(changes, arrivals)]
        self.waves.append(Wave(f"move {_names(changes)}", tuple(steps), self._undo(changes)))

    def _gone(self, changes: Sequence[Change], *, keep: bool = True) -> list[Step]:
        """The steps that drain and remove what moved replicas leave behind."""
        removes = tuple(sorted(unit for change in changes for unit in change.removes))
        steps = self._without(_reached(changes), changes, keep=keep)
        return [*steps, StopMembers(removes)] if removes else steps

    def mark(self, devices: Sequence[Quarantine]) -> None:
        """A wave that keeps these devices out from now on."""
        if devices:
            where = ", ".join(sorted({one.node for one in devices})[:_NAMED])
            title = f"quarantine {len(devices)} device{'' if len(devices) == 1 else 's'} of {where}"
            self.waves.append(Wave(title, (MarkDevices(tuple(devices)),)))

    def revive(self, changes: Sequence[Change], arrivals: Mapping[ReplicaId, Serving]) -> None:
        """A wave that starts or replaces replicas that serve nobody now: they take nothing away."""
        if changes:
            self._replace(changes, arrivals)

    def roll(self, rollings: Sequence[Rolling], arrivals: Mapping[ReplicaId, Serving]) -> None:
        """Waves that replace running replicas: services side by side, and those with a canary one after another."""
        plain = [one for one in rollings if one.rollout.canary is None]
        left = {one.service.name: list(one.changes) for one in rollings}
        self._stand_in([change for one in plain for change in one.stand_ins], arrivals)
        self._side_by_side(plain, left, arrivals)
        for one in rollings:
            if one.rollout.canary is not None:
                self._roll_after_a_canary(one, left, arrivals)
        self._side_by_side(plain, left, arrivals, whatever=True)
        self._stop_stand_ins([change for one in rollings for change in (*one.surplus, *one.stand_ins)])

    def _side_by_side(
        self,
        rollings: Sequence[Rolling],
        left: Mapping[ServiceName, list[Change]],
        arrivals: Mapping[ReplicaId, Serving],
        *,
        whatever: bool = False,
    ) -> None:
        """Waves of as much of each service as may be away. What needs a device of another comes after that; where they
        wait for one another they change together, if `whatever` is said.
        """
        while any(left[one.service.name] for one in rollings):
            held = _holders(change for changes in left.values() for change in changes)
            row: list[Change] = []
            for one in rollings:
                free = [change for change in left[one.service.name] if not _waits(change, held)]
                row += free[: one.rollout.at_once]
            if not row and not whatever:
                return
            row = row or _in_a_ring([change for changes in left.values() for change in changes])
            for change in row:
                left[change.action.service].remove(change)
            self._replace(row, arrivals)

    def _roll_after_a_canary(
        self, rolling: Rolling, left: Mapping[ServiceName, list[Change]], arrivals: Mapping[ReplicaId, Serving]
    ) -> None:
        """The canary is the first stand-in where there is one: then nothing is replaced before it has done well."""
        canary = rolling.service.rollout.canary
        self._stand_in(rolling.stand_ins[:1], arrivals, canary)
        self._stand_in(rolling.stand_ins[1:], arrivals)
        if not rolling.stand_ins and left[rolling.service.name]:
            first = self._first_of(left, rolling.service.name)
            for change in first:
                left[change.action.service].remove(change)
            self._replace(first, arrivals, canary)
        self._side_by_side([rolling], left, arrivals, whatever=True)

    def _first_of(self, left: Mapping[ServiceName, list[Change]], name: ServiceName) -> list[Change]:
        """The first replica of a service that waits for no device, else the first with all that it waits for."""
        every = [change for changes in left.values() for change in changes]
        held = _holders(every)
        free = next((change for change in left[name] if not _waits(change, held)), None)
        first = left[name][0]
        return [free] if free is not None else _in_a_ring([first, *(one for one in every if one is not first)])

    def _stand_in(
        self, changes: Sequence[Change], arrivals: Mapping[ReplicaId, Serving], canary: CanarySpec | None = None
    ) -> None:
        if not changes:
            return
        steps = [*self._fetch(changes), StartMembers(_units(changes)), self._arrive(changes, arrivals, canary)]
        undo: dict[ServiceName, tuple[Step, ...]] = {}
        if canary is not None:
            names = tuple(_endpoint(change) for change in changes)
            removes = tuple(sorted(unit for change in changes for unit in change.removes))
            wait_s = max(_drain_s(change) for change in changes)
            undo[changes[0].action.service] = (self._publish(names, wait_s), StopMembers(removes))
        title = f"canary {_names(changes)} stands in" if canary else f"start stand-ins {_names(changes)}"
        self.waves.append(Wave(title, tuple(steps), undo))

    def _replace(
        self, changes: Sequence[Change], arrivals: Mapping[ReplicaId, Serving], canary: CanarySpec | None = None
    ) -> None:
        """A wave that restarts replicas in place. Those that run are drained before."""
        steps = self._fetch(changes)
        running = [change for change in changes if change.running]
        if running:
            names = [_endpoint(change) for change in running]
            drain = self._publish(names, max(map(_drain_s, running)))
            steps.append(replace(drain, floors=self._floors(names)))
        undo = self._undo(running)
        steps += [StartMembers(_units(changes)), self._arrive(changes, arrivals, canary)]
        title = f"canary {_names(changes)}" if canary else f"update {_names(changes)}"
        self.waves.append(Wave(title, tuple(steps), undo))

    def _undo(self, changes: Sequence[Change]) -> dict[ServiceName, tuple[Step, ...]]:
        """By service what brings the replaced replicas back as they are: nothing is sent to their successors, these go
        where they are elsewhere, then the replicas are what they were. Routes come after: those to what serves then.
        Until then nothing else of the wave is sent anything either: its own step may have failed as well.
        """
        undo: dict[ServiceName, tuple[Step, ...]] = {}
        every = frozenset(endpoint_id(change.action.replica, change.action.nodes[0]) for change in changes)
        for service in sorted({change.action.service for change in changes}):
            steps: list[Step] = []
            before = [(one, units_before(one, self._nodes)) for one in _back_together(changes, service)]
            own = [change for change, units in before if units]
            if not own:
                continue
            names = [endpoint_id(change.action.replica, change.action.nodes[0]) for change in own]
            drain = self._publish(names, max(map(_drain_s, own)))
            steps.append(replace(drain, routes=self._routes.table(every)))
            old = {(unit.node, unit.name) for _, units in before for unit in units}
            new = {(unit.node, unit.name) for change in own for unit in change.units}
            if new - old:
                steps.append(StopMembers(tuple(sorted(new - old))))
            steps.append(StartMembers(_sorted(unit for _, units in before for unit in units)))
            undo[service] = tuple(steps)
        return undo

    def _stop_stand_ins(self, changes: Sequence[Change]) -> None:
        if changes:
            removes = tuple(sorted(unit for change in changes for unit in change.removes))
            steps = [*self._without([_endpoint(change) for change in changes], changes), StopMembers(removes)]
            self.waves.append(Wave(f"stop stand-ins {_names(changes)}", tuple(steps)))

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

    def _arrive(
        self, changes: Sequence[Change], arrivals: Mapping[ReplicaId, Serving], canary: CanarySpec | None = None
    ) -> Publish:
        """Routes that name what has just started; the step after it waits until the gateways have seen it answer, and
        until the canary has done well: the first, and what else of its service had to change with it.
        """
        ids, tried = [], []
        for change in changes:
            arrived = arrivals.get(change.action.replica)
            if arrived is not None:
                ids.append(self._routes.add(arrived))
                tried += ids[-1:] if change.action.service == changes[0].action.service else []
        trial = () if canary is None else (Trial(tuple(tried), canary.answers, canary.max_errors, canary.timeout_s),)
        return replace(self._publish(), ready=tuple(sorted(ids)), trials=trial if tried else ())

    def _without(self, ids: Iterable[EndpointId], changes: Sequence[Change], *, keep: bool = True) -> list[Step]:
        """One step that names endpoints no more and waits for what they have in flight; none when none of them was
        named. With `keep` only while enough others serve.
        """
        named = tuple(sorted({name for name in ids if name in self._routes}))
        floors = self._floors(named) if keep else ()
        for name in named:
            self._routes.remove(name)
        wait_s = max((_drain_s(change, self._catalog) for change in changes), default=0)
        return [Publish(self._routes.table(), named, wait_s, floors=floors)] if named else []

    def _floors(self, draining: Collection[EndpointId]) -> tuple[Floor, ...]:
        """What must go on serving of each service that gives up endpoints. No more than the plan leaves it: where that
        is too little, nothing better could be done.
        """
        found = []
        for service in self._catalog.services:
            named = self._routes.of_service(service.name)
            going = tuple(name for name in named if name in draining)
            stay = tuple(name for name in named if name not in draining)
            at_least = min(service.replicas - service.rollout.max_unavailable, len(stay))
            if going and at_least > 0:
                found.append(Floor(service.name, stay, going, at_least))
        return tuple(found)


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


def _few_of_each(changes: Iterable[Change]) -> list[Change]:
    """As many of each service as may be away at a time, at least one."""
    taken: dict[str, int] = {}
    found = []
    for change in changes:
        most = max(1, change.assignment.service.rollout.max_unavailable) if change.assignment else 1
        count = taken.setdefault(change.action.service, 0)
        if count < most:
            taken[change.action.service] = count + 1
            found.append(change)
    return found


def _in_a_ring(waiting: Sequence[Change]) -> list[Change]:
    """The first replica with all that it waits for, and all that these wait for: they can only go together."""
    found = [waiting[0]]
    for change in found:  # it grows while it is gone through
        needs = devices_needed(change)
        found += [one for one in waiting if one not in found and devices_held(one) & needs]
    return found


def _back_together(changes: Sequence[Change], service: ServiceName) -> list[Change]:
    """The replicas of a service, and of others all that have now what these go back to."""
    found = [one for one in changes if one.action.service == service]
    for change in found:  # it grows while it is gone through
        back = devices_held(change)
        takers = {one.action.service for one in changes if one not in found and devices_needed(one) & back}
        found += [one for one in changes if one not in found and one.action.service in takers]
    return found


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
    return _sorted(unit for change in changes for unit in change.units)


def _sorted(units: Iterable[UnitFile]) -> tuple[UnitFile, ...]:
    return tuple(sorted(units, key=lambda unit: (unit.node, unit.name)))


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
