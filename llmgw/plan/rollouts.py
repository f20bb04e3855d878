# SPDX-License-Identifier: Apache-2.0
"""How each service is rolled out: with stand-ins where there is room, in place where there is not, or not at all (R4).

A replica that is replaced keeps its devices. What may be away at a time is what the service has beyond
`replicas - max_unavailable`: so many replicas, and as many more as there are stand-ins that serve meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from llmgw.model.ids import DeviceId, NodeName, ReplicaId, UnitName
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.placement import Assignment
from llmgw.model.plan import Action, ActionKind, Rollout, Strategy
from llmgw.model.replica import ServiceSpec
from llmgw.model.unit import UnitFile
from llmgw.placement.assign import Outcome
from llmgw.placement.instances import eviction
from llmgw.placement.stand_ins import StandIns
from llmgw.plan.diff import Change, device_names, devices_held, devices_needed
from llmgw.routes.build import endpoint_id
from llmgw.routes.withheld import still_drained

STARTING = (ActionKind.CREATE, ActionKind.MOVE)
"""What comes up somewhere new."""
_FAILED = "failed"
Places = tuple[Assignment, ...]
_REPLACED = (ActionKind.UPDATE, ActionKind.START)


@dataclass(frozen=True, slots=True)
class Rolling:
    """One service's rollout: the running replicas that are replaced, those that are started to stand in, and surplus
    ones that go on serving meanwhile.
    """

    service: ServiceSpec
    rollout: Rollout
    changes: tuple[Change, ...]
    stand_ins: tuple[Change, ...] = ()
    surplus: tuple[Change, ...] = ()


def rollings(
    outcome: Outcome,
    changes: Sequence[Change],
    late: frozenset[ReplicaId],
    render: Callable[[Assignment], tuple[UnitFile, ...]],
) -> tuple[Rolling, ...]:
    """The rollouts of all services of which running replicas are replaced, sorted by service.

    `late`: replicas that start only after the rollouts. `render`: the units of a stand-in.
    """
    failing = failing_replicas(outcome.board.fleet)
    replaced: dict[str, list[Change]] = {}
    for change in changes:
        if change.action.kind in _REPLACED and change.running and change.action.replica not in failing:
            replaced.setdefault(change.action.service, []).append(change)
    if not replaced:
        return ()
    finder = StandIns(outcome.board, _held(changes) | _still_had(outcome))
    planner = _Planner(outcome, changes, late, finder, render)
    services = [one for one in outcome.board.catalog.services if one.name in replaced]
    # All that goes on serving is known before the first stand-in is placed, of whatever service.
    going_on = {one.name: planner.going_on(one, replaced[one.name]) for one in services}
    # And nobody has a second one before everybody has one who could do nothing without.
    first = {one.name: planner.first(one, replaced[one.name], going_on[one.name]) for one in services}
    found = [planner.rolling(one, replaced[one.name], going_on[one.name], first[one.name]) for one in services]
    finder.leave()
    return tuple(found)


class _Planner:
    """Chooses how services are rolled out, one after another."""

    def __init__(
        self,
        outcome: Outcome,
        changes: Sequence[Change],
        late: frozenset[ReplicaId],
        finder: StandIns,
        render: Callable[[Assignment], tuple[UnitFile, ...]],
    ) -> None:
        self._outcome = outcome
        self._changes = changes
        self._finder = finder
        self._render = render
        self._wanted = {device for change in changes for device in devices_needed(change)}
        self._known = {change.action.replica for change in changes}
        self._counted = any(one.state is NodeState.OK for one in outcome.board.fleet.gateways)
        self._assigned = {one.replica for one in outcome.placement.assignments}
        waits = late - {change.action.replica for change in changes if _serves(change)}
        # What is put right before anything is taken away serves then.
        mended = {change.action.replica for change in changes if change.action.kind in (*_REPLACED, *STARTING)}
        waits |= failing_replicas(outcome.board.fleet) - mended
        waits |= _drained_replicas(outcome)
        self._serving = Counter(one.service.name for one in outcome.placement.assignments if one.replica not in waits)
        # What must leave and has no other place goes on serving where it is.
        self._serving.update(one.service for one in outcome.placement.unplaced if one.runs_on)

    def _room(self, service: ServiceSpec, changes: Sequence[Change]) -> tuple[int, int]:
        """How many replicas may be away without a stand-in, and how many stand-ins are wanted."""
        serving = self._serving[service.name]
        may_go = serving - (service.replicas - service.rollout.max_unavailable)
        return may_go, _wanted_stand_ins(service, serving, may_go, len(changes))

    def going_on(self, service: ServiceSpec, changes: Sequence[Change]) -> tuple[Change, ...]:
        """The surplus replicas that stand in: what they have is nobody's meanwhile."""
        wanted = self._room(service, changes)[1]
        found: dict[ReplicaId, Change] = {}
        for change in self._surplus(service):
            new = change.action.replica not in found and len(found) < wanted
            if new and change.instance is not None and self._finder.stay(service, change.instance):
                found[change.action.replica] = change
        return tuple(found.values())

    def first(self, service: ServiceSpec, changes: Sequence[Change], surplus: tuple[Change, ...]) -> Places:
        """The place of the stand-in without which a service could not be rolled out at all."""
        may_go, wanted = self._room(service, changes)
        if surplus or may_go > 0:
            return ()
        return self._finder.find(service, self._fresh(service, min(1, wanted)))

    def rolling(
        self, service: ServiceSpec, changes: Sequence[Change], surplus: tuple[Change, ...], first: Places
    ) -> Rolling:
        """The rollout of one service."""
        serving = self._serving[service.name]
        may_go, wanted = self._room(service, changes)
        more = self._fresh(service, wanted - len(surplus))[len(first) :]
        places = (*first, *self._finder.find(service, more))
        stand_ins = tuple(self._stand_in(place) for place in places)
        extra = len(surplus) + len(stand_ins)
        at_once = _at_once(len(changes), may_go + extra)
        names = tuple(one.action.replica for one in (*surplus, *stand_ins))
        rollout = Rollout(
            service=service.name,
            strategy=Strategy.SURGE if names else Strategy.IN_PLACE,
            replaced=len(changes),
            at_once=at_once,
            stand_ins=names if at_once else (),
        )
        if not at_once:
            self._finder.leave({place.replica for place in places})
            return Rolling(service, _refused(rollout, service, serving, wanted), tuple(changes))
        if service.rollout.canary is not None and not self._counted:
            self._finder.leave({place.replica for place in places})
            reason = "no gateway answers that could count the answers of its canary"
            fix = f"see to the gateways (`llmgw facts show`), or take canary out of the rollout of {service.name}"
            return Rolling(service, replace(rollout, at_once=0, stand_ins=(), reason=reason, fix=fix), tuple(changes))
        if service.rollout.canary is not None:
            rollout = replace(rollout, canary=(stand_ins or changes)[0].action.replica)
        if wanted and not names:
            rollout = replace(rollout, reason="no place is free for a stand-in")
        return Rolling(service, rollout, tuple(changes), stand_ins, surplus)

    def _surplus(self, service: ServiceSpec) -> Iterator[Change]:
        """Surplus replicas that could go on serving for a while: sound, and nobody gets their devices."""
        for change in self._changes:
            instance = change.instance
            if change.action.kind is not ActionKind.STOP or change.action.service != service.name or instance is None:
                continue
            sound = instance.led and instance.working and instance.settled and eviction(instance) is None
            if sound and instance.replica not in self._assigned and not devices_held(change) & self._wanted:
                yield change

    def _fresh(self, service: ServiceSpec, wanted: int) -> list[ReplicaId]:
        """Ids that no replica has, seen or placed."""
        free = (ReplicaId(f"{service.name}/{number}") for number in count(service.replicas))
        unused = (replica for replica in free if replica not in self._known)
        return [next(unused) for _ in range(max(0, wanted))]

    def _stand_in(self, assignment: Assignment) -> Change:
        units = self._render(assignment)
        nodes = {name: ledger.node for name, ledger in self._outcome.board.ledgers.items()}
        action = Action(
            kind=ActionKind.STAND_IN,
            replica=assignment.replica,
            service=assignment.service.name,
            nodes=tuple(member.node for member in assignment.members),
            devices=tuple(device_names(assignment, nodes)),
            profile=assignment.profile.name,
            reasons=("it serves while others are replaced, then it goes",),
            members=assignment.members,
        )
        removes: tuple[tuple[NodeName, UnitName], ...] = tuple((unit.node, unit.name) for unit in units)
        return Change(action, assignment, units, removes)


def failing_replicas(fleet: FleetSnapshot) -> frozenset[ReplicaId]:
    """The replicas that every gateway which answers and knows them finds failed: they take no requests, whatever their
    nodes say or said of them.
    """
    failed: dict[str, bool] = {}
    for gateway in fleet.gateways:
        if gateway.state is NodeState.OK and gateway.facts is not None and gateway.facts.reachable:
            for one in gateway.facts.endpoints:
                failed[one.endpoint] = failed.get(one.endpoint, True) and one.state == _FAILED
    # A replica may have an endpoint elsewhere, such as while it moves.
    every = {name.rpartition("@")[0] for name, away in failed.items() if not away}
    return frozenset(ReplicaId(name.rpartition("@")[0]) for name, away in failed.items() if away) - every


def _drained_replicas(outcome: Outcome) -> frozenset[ReplicaId]:
    """The replicas that stay drained because nobody knows whether they are about to end."""
    drained = still_drained(outcome.board.fleet, outcome.board.catalog.fleet.lost_after_s)
    placed = outcome.placement.assignments if drained else ()
    return frozenset(one.replica for one in placed if endpoint_id(one.replica, one.leader.node) in drained)


def late_starts(changes: Sequence[Change]) -> frozenset[ReplicaId]:
    """What can start only after replicas are replaced in place: it needs a device that one of them gives up, or that
    another late one does.
    """
    waiting = [
        one for one in changes if one.action.kind in STARTING or (one.action.kind in _REPLACED and not one.running)
    ]
    given_up = {
        device
        for change in changes
        if change.action.kind in _REPLACED and change.running
        for device in devices_held(change) - devices_needed(change)
    }
    late: set[ReplicaId] = set()
    while found := [one for one in waiting if (given_up - devices_held(one)) & devices_needed(one)]:
        late |= {change.action.replica for change in found}
        given_up |= {device for change in found for device in devices_held(change)}
        waiting = [change for change in waiting if change.action.replica not in late]
    return frozenset(late)


def carried_out(
    rolling: Sequence[Rolling], changes: Sequence[Change], homeless: Container[ReplicaId] = ()
) -> tuple[tuple[Rolling, ...], list[Change]]:
    """All rollouts, those refused too of which everything waits for a device that a refused one goes on holding, with
    the changes that each carries out; and all changes that a plan carries out, those of rollouts too.
    """
    out = {id(change): change for one in rolling if one.rollout.refused for change in one.changes}
    stops = [one for one in changes if one.action.kind is ActionKind.STOP and one.action.replica in homeless]
    waiting = [one for one in changes if one.action.kind is not ActionKind.STOP and id(one) not in out]
    reach = list(out.values())
    while reach:
        held = frozenset().union(*map(devices_held, reach))
        wanted = frozenset().union(*map(devices_needed, reach))
        reach = [one for one in waiting if devices_needed(one) & held]
        # What stops only to make room for what does not come goes on.
        reach += [one for one in stops if devices_held(one) & wanted]
        out |= {id(change): change for change in reach}
        waiting = [one for one in waiting if id(one) not in out]
        stops = [one for one in stops if id(one) not in out]
    kept = [change for change in changes if id(change) not in out]
    return tuple(_of_what_is_left(one, out) for one in rolling), kept


def _of_what_is_left(rolling: Rolling, out: Container[int]) -> Rolling:
    left = tuple(change for change in rolling.changes if id(change) not in out)
    one = rolling.rollout
    if one.refused:
        return replace(rolling, changes=left)
    if left:
        names = {change.action.replica for change in (*left, *rolling.stand_ins)}
        canary = one.canary if one.canary is None or one.canary in names else left[0].action.replica
        one = replace(one, replaced=len(left), at_once=min(one.at_once, len(left)), canary=canary)
        return replace(rolling, rollout=one, changes=left)
    why = "it needs devices of replicas that cannot be replaced"
    rollout = replace(rolling.rollout, at_once=0, stand_ins=(), canary=None, reason=why, fix="see to those first")
    return Rolling(rolling.service, rollout, ())


def _serves(change: Change) -> bool:
    """Whether what a change replaces serves until then."""
    gone = change.instance
    if gone is None or not gone.led or not gone.working:
        return False
    return all(part.node.state is not NodeState.LOST for part in gone.parts)


def _at_once(replaced: int, may_go: int) -> int:
    return max(0, min(replaced, may_go))


def _wanted_stand_ins(service: ServiceSpec, serving: int, may_go: int, replaced: int) -> int:
    """How many stand-ins a rollout would have. Without a word of the catalog one, where else nothing might serve."""
    surge = service.rollout.max_surge
    if surge is None:
        surge = 1 if min(may_go, replaced) >= serving or may_go < 1 else 0
    return min(surge, replaced)


def _refused(rollout: Rollout, service: ServiceSpec, serving: int, wanted: int) -> Rollout:
    away, replicas = service.rollout.max_unavailable, service.replicas
    few = "" if serving >= replicas else f"only {serving} of {replicas} replicas serve, and "
    reason = f"{few}no more than {away} may be away (max_unavailable)"
    reason += ", and no place is free for a stand-in" if wanted else ", and no stand-in may serve (max_surge 0)"
    room = "make room for one more replica" if wanted else "set max_surge to 1"
    return replace(rollout, reason=reason, fix=f"{room}, or raise max_unavailable of {service.name}")


def _still_had(outcome: Outcome) -> frozenset[tuple[NodeName, DeviceId]]:
    """The devices of what must leave and has no other place: it goes on where it is."""
    assigned = outcome.board.assigned
    homeless = [instance for replica, (instance, _) in outcome.displaced.items() if replica not in assigned]
    return frozenset(
        (part.node.name, DeviceId(one)) for gone in homeless for part in gone.parts for one in part.unit.devices
    )


def _held(changes: Iterable[Change]) -> frozenset[tuple[NodeName, DeviceId]]:
    """The devices of all that is replaced or moved: while stand-ins start, it still has them."""
    kept = (ActionKind.STOP, ActionKind.KEEP)
    every = (devices_held(change) for change in changes if change.action.kind not in kept)
    return frozenset((NodeName(node), DeviceId(device)) for held in every for node, device in held)
