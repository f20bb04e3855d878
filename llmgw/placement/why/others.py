# SPDX-License-Identifier: Apache-2.0
"""How others could make room for a replica: by moving, or by giving way to a higher priority (P10, P11)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from llmgw.model.ids import NodeName, ReplicaId
from llmgw.model.placement import Assignment
from llmgw.model.replica import ServiceSpec
from llmgw.model.why import Cost, Relaxation, Step
from llmgw.placement.assign import Outcome
from llmgw.placement.rearrange import moving
from llmgw.placement.why.trial import Trials

_NAMED = 3
_PRIORITIES = 3
"""Priorities of others that are tried, the next higher ones."""


def moves(
    trials: Trials, outcome: Outcome, service: ServiceSpec, replica: ReplicaId, asked: AbstractSet[NodeName]
) -> Relaxation | None:
    """Moves of what runs that make room, if the room is on nodes that are asked about."""
    room = moving(outcome.board, service, replica)
    if room is None:
        return None
    nodes = tuple(member.node for member in room.assignment.members)
    if not asked >= set(nodes) or not room.moves:
        return None
    places = [one for old, new in room.changes if new is not None for one in (old, new)]
    touched = {member.node for one in (*places, room.assignment) for member in one.members}
    moved = {old.replica: new for old, new in room.changes if new is not None}
    if not trials.fits(room.assignment.profile.name, dict.fromkeys(sorted(touched), ()), moved):
        return None
    steps = tuple(
        Step(
            "move",
            f"move {old.replica} from {_where(old)} to {_where(new)}",
            {"replica": old.replica, "from": _where(old), "to": _where(new)},
            how="docs/how-to/ask-why.md tells how to move one replica",
        )
        for old, new in room.moves
    )
    told = [step.words.removeprefix("move ") for step in steps]
    sentence = f"move {named(told, len(told), 'and')}"
    caution = f"{'it' if len(steps) == 1 else 'each of them'} is restarted elsewhere"
    return Relaxation("move", sentence, Cost.TAKES, nodes, room.assignment.profile.name, steps, caution)


def _where(one: Assignment) -> str:
    return ", ".join(member.node for member in one.members)


def higher_priority(
    trials: Trials, outcome: Outcome, service: ServiceSpec, replica: ReplicaId, asked: AbstractSet[NodeName]
) -> Relaxation | None:
    """The least priority at which others give way; None when that is none of the next ones, or the fleet is too large
    to see.
    """
    board = outcome.board
    able = {name for profile in service.profiles for name in board.eligible(service, profile)}
    theirs = {one.service.priority for name in able for one in board.on_node[name].values()}
    for priority in sorted(one + 1 for one in theirs if one >= service.priority)[:_PRIORITIES]:
        services = tuple(
            replace(one, priority=priority) if one.name == service.name else one for one in board.catalog.services
        )
        then = trials.placed_again(replace(board.catalog, services=services))
        place = None if then is None else then.board.assigned.get(replica)
        if then is not None and place is not None and asked >= {member.node for member in place.members}:
            gone = sorted(board.assigned.keys() - then.board.assigned.keys())
            caution = (
                f"{named(gone, _NAMED, 'and')} then {'has' if len(gone) == 1 else 'have'} no place" if gone else ""
            )
            caution = "; ".join(filter(None, (caution, _moved(outcome, then))))
            step = Step(
                "priority",
                f"raise the priority of {service.name} from {service.priority} to {priority}",
                {"priority": priority},
                service.priority,
                priority,
                entry=f"services.{service.name}",
            )
            nodes = tuple(member.node for member in place.members)
            return Relaxation("priority", step.words, Cost.TAKES, nodes, place.profile.name, (step,), caution or None)
    return None


def _moved(before: Outcome, then: Outcome) -> str:
    """Who of those that run would then be elsewhere: `chat/2 moves from n1 to n2`."""
    words = []
    for replica, old in sorted(before.board.assigned.items()):
        new = then.board.assigned.get(replica)
        if new is not None and old.kept and not new.kept and _where(new) != _where(old):
            words.append(f"{replica} moves from {_where(old)} to {_where(new)}")
    return named(words, _NAMED, "and") if words else ""


def named(names: Sequence[str], most: int, word: str) -> str:
    """`n1`, `n1 or n2`, `n1, n2 or 12 more`."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))
