# SPDX-License-Identifier: Apache-2.0
"""Defragmentation advice: the fewest moves of what runs that would make a replica fit which has no place, and what they
cost. Advice only: what runs and fits stays until somebody drains it (P8, P10).
"""

from __future__ import annotations

from collections.abc import Iterable

from llmgw.engines.deadlines import ready_timeout_s
from llmgw.model.advice import Advice, AdvisedMove, FreeDevices
from llmgw.model.ids import DeviceClass
from llmgw.model.placement import Assignment, Unplaced
from llmgw.placement.assign import Outcome
from llmgw.placement.board import Board
from llmgw.placement.rearrange import moving

MOST_SERVICES = 20
"""Services that advice is sought for in one plan: each costs a search."""


def advice(outcome: Outcome) -> tuple[Advice, ...]:
    """For the first replica without a place of each service: the moves that would make it fit, if any do."""
    found = []
    for one in _first_of_each(outcome.placement.unplaced):
        service = next(each for each in outcome.board.catalog.services if each.name == one.service)
        room = moving(outcome.board, service, one.replica)
        if room is not None and room.moves:
            moves = tuple(_move(outcome.board, old, new) for old, new in room.moves)
            target = room.assignment
            nodes = tuple(member.node for member in target.members)
            found.append(Advice(one.replica, service.name, target.profile.name, nodes, moves))
    return tuple(found)


def _first_of_each(unplaced: Iterable[Unplaced]) -> list[Unplaced]:
    first: dict[str, Unplaced] = {}
    for one in unplaced:
        if one.held is None and one.gave_way_to is None:
            first.setdefault(one.service, one)
    return list(first.values())[:MOST_SERVICES]


def _move(board: Board, old: Assignment, new: Assignment) -> AdvisedMove:
    holders = board.ask(new.service, new.profile).holders
    missing = [member.node for member in new.members if member.node not in holders]
    tensors = board.models.known(new.profile.model).tensors
    size = None if tensors is None else int(tensors.bytes.likely)
    return AdvisedMove(
        replica=old.replica,
        from_nodes=tuple(member.node for member in old.members),
        to_nodes=tuple(member.node for member in new.members),
        devices=sum(len(member.devices) for member in old.members),
        ready_timeout_s=max(ready_timeout_s(new.profile, board.ledgers[member.node].node) for member in new.members),
        nodes_without_weights=tuple(missing),
        weights_bytes=size if missing else 0,
    )


def free_devices(board: Board) -> tuple[FreeDevices, ...]:
    """What is free of every class: in all, on how many nodes, and the most on one node (P10). By class."""
    found: dict[DeviceClass, list[int]] = {}
    for ledger in board.ledgers.values():
        for name in ledger.classes:
            free = len(ledger.free_devices(name))
            found.setdefault(DeviceClass(name), []).append(free)
    return tuple(
        FreeDevices(name, sum(counts), sum(count > 0 for count in counts), max(counts))
        for name, counts in sorted(found.items())
    )
