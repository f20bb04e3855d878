# SPDX-License-Identifier: Apache-2.0
"""The fewest moves that any plan needs for what has happened (P8): what cannot stay where it is, whoever plans."""

from __future__ import annotations

from llmgw.model.ids import ReplicaId
from llmgw.placement.assign import Outcome
from llmgw.placement.instances import Instance


def unavoidable_moves(outcome: Outcome) -> int:
    """How many of the replicas that got another place could not have stayed on their nodes, even alone there.

    A replica moves for want of room at home, or because it gave way, only when others are there: such moves are above
    this bound.
    """
    placed = outcome.board.assigned
    return sum(
        not _could_stay(outcome, replica, instance)
        for replica, (instance, _) in outcome.displaced.items()
        if replica in placed
    )


def _could_stay(outcome: Outcome, replica: ReplicaId, instance: Instance) -> bool:
    board = outcome.board
    service = board.assigned[replica].service
    return any(
        profile.nodes == len(instance.nodes) and set(instance.nodes) <= board.eligible(service, profile).keys()
        for profile in service.profiles
    )
