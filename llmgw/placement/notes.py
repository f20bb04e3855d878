# SPDX-License-Identifier: Apache-2.0
"""What is not as one would wish in a placement, in sentences: never silent, and no reason to move anything (P4, P8)."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.capability.versions import unchecked
from llmgw.model.placement import Assignment
from llmgw.placement.assign import Outcome
from llmgw.placement.board import Board

_NAMED = 5


def notes(outcome: Outcome) -> tuple[str, ...]:
    """Sentences about spreads that are not met, cards that were chosen blindly, and new replicas by old facts."""
    return (*_spreads(outcome.board), *_blind(outcome), *_stale(outcome), *_unchecked(outcome), *_shared(outcome))


def _spreads(board: Board) -> Iterator[str]:
    for service in board.catalog.services:
        tally = board.tally(service)
        if tally.share is None:
            continue
        over = {name: count for name, count in sorted(tally.domains.items()) if count > tally.share}
        if over:
            told = ", ".join(f"{name} has {count}" for name, count in over.items())
            yield (
                f"{service.name} is spread by {service.spread} with at most {tally.share} in one, and {told}: what runs"
                " stays where it is"
            )


def _blind(outcome: Outcome) -> Iterator[str]:
    for assignment in outcome.placement.assignments:
        nodes = [] if assignment.kept else list(_unjoined(outcome.board, assignment))
        if nodes:
            yield (
                f"{assignment.replica}: how the cards of {', '.join(nodes)} are joined is unknown, they were chosen by"
                " index"
            )


def _stale(outcome: Outcome) -> Iterator[str]:
    """Nodes that get something new by facts so old that a finding says so."""
    new = {member.node for one in outcome.placement.assignments if not one.kept for member in one.members}
    for name in sorted(new):
        node = outcome.board.ledgers[name].node
        if node.stale and node.oldest_age_s is not None:
            yield f"{name} gets new replicas by facts that are {node.oldest_age_s / 3600:.0f} h old"


def _unchecked(outcome: Outcome) -> Iterator[str]:
    """Engines that get something new to start and are newer than what command lines were checked with."""
    new = {
        (member.node, one.profile.engine)
        for one in outcome.placement.assignments
        if not one.kept
        for member in one.members
    }
    told: dict[str, list[str]] = {}
    for name, kind in sorted(new):
        facts = outcome.board.ledgers[name].node.facts
        engines = (facts.engines or ()) if facts is not None else ()
        why = unchecked(kind, next((one.version for one in engines if one.kind == kind), None))
        if why is not None:
            told.setdefault(why, []).append(name)
    for why, names in sorted(told.items()):
        yield f"{', '.join(names[:_NAMED])}{' and others' if len(names) > _NAMED else ''}: {why}"


def _shared(outcome: Outcome) -> Iterator[str]:
    """Devices that the units of two replicas name: nobody planned that."""
    holders: dict[tuple[str, str], list[str]] = {}
    for one in outcome.placement.assignments:
        for member in one.members:
            for device in member.devices:
                holders.setdefault((member.node, device), []).append(one.replica)
    for (node, uuid), replicas in sorted(holders.items()):
        if len(replicas) > 1:
            yield f"device {uuid} of {node} is named by the units of {' and '.join(replicas)}: stop one of them"


def _unjoined(board: Board, assignment: Assignment) -> Iterator[str]:
    """Nodes of which more than one card was chosen out of more, without knowing what joins them."""
    for member in assignment.members:
        ledger = board.ledgers[member.node]
        count = len(ledger.node.devices or ())
        if 1 < len(member.devices) < count and not board.shapes.links(ledger).known:
            yield member.node
