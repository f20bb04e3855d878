# SPDX-License-Identifier: Apache-2.0
"""The best node for one replica after another of a service, without looking at every node again for each.

A heap of the nodes that fit, by score. What is on top is judged again before it is used, so an entry may be too good;
nodes that a promise has made better are pushed again (`touch`). Cost: O(nodes) once, O(log nodes) a replica.
"""

from __future__ import annotations

import heapq

from llmgw.model.ids import NodeName
from llmgw.model.placement import Assignment
from llmgw.placement.board import Board
from llmgw.placement.feasibility import Ask
from llmgw.placement.ledger import Ledger


class Candidates:
    """Nodes that fit one member of an ask; for replicas of one node."""

    def __init__(self, board: Board, ask: Ask) -> None:
        self._board = board
        self._ask = ask
        self._heap: list[tuple[float, NodeName]] = []
        for ledger in board.with_room(ask):
            rank = board.rank(ask, ledger)
            if rank is not None:
                self._heap.append((-rank, ledger.node.name))
        heapq.heapify(self._heap)

    def best(self) -> Ledger | None:
        """The best node now; None when none fits."""
        while self._heap:
            worth, name = self._heap[0]
            ledger = self._board.ledgers[name]
            rank = self._board.rank(self._ask, ledger)
            if rank is not None and -rank == worth:
                return ledger
            heapq.heappop(self._heap)
            if rank is not None and -rank > worth:
                heapq.heappush(self._heap, (-rank, name))
        return None

    def touch(self, assignment: Assignment) -> None:
        """See again what a replica that was just placed has made better: its own nodes are judged when they come up,
        the others of their NVLink domains are no longer part of a whole one, and the first node of a service that has
        got a second one is as good as others again.
        """
        eligible = self._board.eligible(self._ask.service, self._ask.profile)
        names = {ledger.node.name for one in assignment.members for ledger in self._board.neighbours(one.node)}
        if len(self._ask.tally.nodes) <= 2:  # noqa: PLR2004 - the second node is the one that changes the first
            names |= {NodeName(name) for name in self._ask.tally.nodes}
        for name in names & eligible.keys():
            rank = self._board.rank(self._ask, eligible[name])
            if rank is not None:
                heapq.heappush(self._heap, (-rank, name))
