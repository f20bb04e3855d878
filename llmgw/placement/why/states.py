# SPDX-License-Identifier: Apache-2.0
"""How it stands with one replica, in a sentence: where it runs, where it goes, whether it goes on or is stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from llmgw.model.ids import ReplicaId, ServiceName
from llmgw.model.node import NodeState
from llmgw.model.placement import Assignment, Unplaced
from llmgw.model.why import Place, ReplicaWhy, Why, WhyState
from llmgw.nodekit import unitchange
from llmgw.placement.assign import Outcome
from llmgw.placement.board import Board
from llmgw.placement.instances import Instance, instances_of
from llmgw.placement.score import total


@dataclass(frozen=True, slots=True)
class States:
    """Says how it stands with replicas once an outcome is carried out."""

    outcome: Outcome
    seen: Mapping[ReplicaId, tuple[Instance, ...]] = field(init=False)
    """What is seen on the nodes of every replica."""
    stopped: Mapping[ReplicaId, tuple[Instance, str]] = field(init=False)
    """What the plan stops, and why."""

    def __post_init__(self) -> None:
        """Look at all units once."""
        found: dict[ReplicaId, tuple[Instance, ...]] = {}
        for instance in instances_of(self.outcome.board.fleet):
            found[instance.replica] = (*found.get(instance.replica, ()), instance)
        object.__setattr__(self, "seen", found)
        stopped = {instance.replica: (instance, reason) for instance, reason in reversed(self.outcome.surplus)}
        object.__setattr__(self, "stopped", stopped)

    def assigned(self, one: Assignment) -> ReplicaWhy:
        """One that has a place."""
        place = place_of(one, self.outcome.board)
        where = ", ".join(member.node for member in one.members)
        if one.kept:
            return self._kept(one, where, place)
        left = self.outcome.displaced.get(one.replica)
        reason = f"goes to {where}"
        if left is not None and where != ", ".join(left[0].nodes):
            reason = f"moves from {', '.join(left[0].nodes)} to {where}: {left[1]}"
        elif left is not None:
            reason = f"starts anew on {where}: {left[1]}"
        gave_way = [victim for victim in one.preempts if self._gave_way(victim, one.replica)]
        if gave_way:
            reason += f"; {', '.join(gave_way)} gave way"
        return ReplicaWhy(one.replica, WhyState.PLACED, reason, place)

    def _gave_way(self, victim: ReplicaId, taker: ReplicaId) -> bool:
        """Whether a replica lost the place where it runs, or every place, to this one: what lost one after another is
        told of the first, which took where it runs.
        """
        ran = self.outcome.displaced.get(victim) or self.stopped.get(victim)
        if ran is not None:
            return f"gives way to {taker} " in f"{ran[1]} "
        return any(one.replica == victim and one.gave_way_to == taker for one in self.outcome.placement.unplaced)

    def _kept(self, one: Assignment, where: str, place: Place) -> ReplicaWhy:
        down = self._down(one)
        if down is None:
            return ReplicaWhy(one.replica, WhyState.KEPT, f"runs on {where} and stays", place)
        nodes = {member.node: self.outcome.board.ledgers[member.node].node for member in one.members}
        away = [name for name, node in nodes.items() if node.state is not NodeState.OK]
        then = f"once {', '.join(away)} can be reached, apply starts it again" if away else "apply starts it again"
        return ReplicaWhy(
            one.replica, WhyState.DOWN, f"has its place on {where} and does not run now ({down}): {then}", place
        )

    def _down(self, one: Assignment) -> str | None:
        """What systemd says of a unit that does not run; None when all of them do."""
        nodes = {member.node for member in one.members}
        units = [
            part.unit
            for instance in self.seen.get(one.replica, ())
            for part in instance.parts
            if part.node.name in nodes
        ]
        dead = next((unit for unit in units if not unitchange.is_running(unit)), None)
        if dead is None:
            return None
        return "/".join(dict.fromkeys(filter(None, (dead.active_state, dead.sub_state)))) or "its state is unknown"

    def unplaced(self, one: Unplaced) -> ReplicaWhy:
        """One that has no place, and what becomes of it where it runs."""
        if one.held is not None:
            return ReplicaWhy(one.replica, WhyState.HELD, one.held)
        return ReplicaWhy(one.replica, WhyState.UNPLACED, self._nowhere(one))

    def _nowhere(self, one: Unplaced) -> str:
        stopped, left = self.stopped.get(one.replica), self.outcome.displaced.get(one.replica)
        if stopped is not None:
            where = ", ".join(stopped[0].nodes)
            what = "this plan stops it there" if stopped[0].working else "this plan removes it there"
            return f"has to leave {where}, because {stopped[1]}, and fits nowhere else: {what}"
        if left is not None:
            where = ", ".join(left[0].nodes)
            goes_on = "it goes on running there" if left[0].working else "it is left there and does not run"
            return (
                f"has to leave {where}, because {left[1]}, and fits nowhere else: {goes_on}, this plan does not stop it"
            )
        if one.gave_way_to is not None:
            return f"gave way to {one.gave_way_to}, does not run yet and fits nowhere else"
        count = len(self.outcome.board.ledgers)
        nowhere = f"fits on none of {count} nodes" if count > 1 else "does not fit on the one node"
        return nowhere if count else "finds no nodes in the inventory"


def leaving(outcome: Outcome, service: str, number: int | None = None) -> Why | None:
    """The answer for what runs and nobody wants: all that is stopped of a service, or one of its replicas."""
    wanted = next((one.replicas for one in outcome.board.catalog.services if one.name == service), 0)
    found = [
        (instance, reason)
        for instance, reason in outcome.surplus
        if instance.service == service and number in (None, instance.number)
    ]
    if not found:
        return None
    replicas = tuple(_leaving(instance, reason) for instance, reason in sorted(found, key=_by_number))
    replica = None if number is None else ReplicaId(f"{service}/{number}")
    return Why(ServiceName(service), replica, None, wanted, replicas)


def _by_number(one: tuple[Instance, str]) -> tuple[int, str]:
    return one[0].number, one[0].node.name


def _leaving(instance: Instance, reason: str) -> ReplicaWhy:
    where = ", ".join(instance.nodes)
    runs = "runs on" if instance.working else "does not run, and has its unit on"
    away = [part.node.name for part in instance.parts if part.node.state is not NodeState.OK]
    later = f" once {', '.join(away)} can be reached" if away else ""
    return ReplicaWhy(instance.replica, WhyState.STOPS, f"{runs} {where}; {reason}, so apply stops it{later}")


def place_of(one: Assignment, board: Board) -> Place:
    """A place with its devices as people name them."""
    names = []
    for member in one.members:
        known = {device.uuid: device for device in board.ledgers[member.node].node.devices or ()}
        for uuid in member.devices:
            device = known.get(uuid)
            names.append(uuid if device is None else f"{device.display_name} ({device.device_class})")
    return Place(one.profile.name, one.members, tuple(names), one.score, total(one.score) if one.score else None)


ORDER = (WhyState.UNPLACED, WhyState.HELD, WhyState.PLACED, WhyState.DOWN, WhyState.KEPT, WhyState.STOPS)


def subject_of(replicas: Iterable[ReplicaWhy]) -> ReplicaWhy | None:
    """The replica that the nodes are asked about: the first without a place, or the first."""
    return min(replicas, key=lambda one: ORDER.index(one.state), default=None)
