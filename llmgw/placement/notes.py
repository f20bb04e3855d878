# SPDX-License-Identifier: Apache-2.0
"""What is not as one would wish in a placement, in sentences: never silent, and no reason to move anything (P4, P8)."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.capability.versions import unchecked
from llmgw.engines.members import ports_needed
from llmgw.model.ids import EngineKind, NodeName
from llmgw.model.node import NodeState
from llmgw.model.placement import Assignment
from llmgw.placement.assign import Outcome
from llmgw.placement.board import Board

_NAMED = 5


def notes(outcome: Outcome) -> tuple[str, ...]:
    """Sentences about spreads that are not met, cards that were chosen blindly, new replicas by old facts, engines that
    differ, and what two replicas have.
    """
    return (
        *_spreads(outcome.board),
        *_blind(outcome),
        *_stale(outcome),
        *_unchecked(outcome),
        *_mixed(outcome),
        *_shared(outcome),
        *_ports(outcome),
    )


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
        why = unchecked(kind, _version(outcome.board, name, kind))
        if why is not None:
            told.setdefault(why, []).append(name)
    for why, names in sorted(told.items()):
        yield f"{', '.join(names[:_NAMED])}{' and others' if len(names) > _NAMED else ''}: {why}"


def _version(board: Board, node: NodeName, kind: EngineKind) -> str | None:
    facts = board.ledgers[node].node.facts
    engines = (facts.engines or ()) if facts is not None else ()
    return next((one.version for one in engines if one.kind == kind), None)


def _mixed(outcome: Outcome) -> Iterator[str]:
    """Replicas that stay on nodes which have different versions of their engine by now: ranks of two versions do not
    speak to one another.
    """
    for one in outcome.placement.assignments:
        if not one.kept or len(one.members) == 1:
            continue
        kind = one.profile.engine
        on = {member.node: _version(outcome.board, member.node, kind) for member in one.members}
        versions = {node: version for node, version in sorted(on.items()) if version is not None}
        if len(set(versions.values())) > 1:
            told = ", ".join(f"{node} has {version}" for node, version in versions.items())
            yield (
                f"{one.replica}: the versions of {kind} on its nodes differ now ({told}): it stays on the one that it"
                " runs; install one version on all of them"
            )


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


def _ports(outcome: Outcome) -> Iterator[str]:
    """Replicas of which each needs a port of the other: there was no row of free ones to give one of them."""
    holders: dict[tuple[str, int], list[str]] = {}
    for one in outcome.placement.assignments:
        needed = ports_needed(one.profile)
        for member in one.members:
            if outcome.board.ledgers[member.node].node.state is not NodeState.OK:
                continue
            for port in range(member.port, member.port + needed):
                holders.setdefault((member.node, port), []).append(one.replica)
    for (node, port), replicas in sorted(holders.items()):
        if len(replicas) > 1:
            yield (
                f"port {port} of {node} is needed by {' and by '.join(replicas)}, and no row of ports is free: widen"
                " `port_range` of `fleet`"
            )


def _unjoined(board: Board, assignment: Assignment) -> Iterator[str]:
    """Nodes of which more than one card was chosen out of more, without knowing what joins them."""
    for member in assignment.members:
        ledger = board.ledgers[member.node]
        count = len(ledger.node.devices or ())
        if 1 < len(member.devices) < count and not board.shapes.links(ledger).known:
            yield member.node
