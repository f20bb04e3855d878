# SPDX-License-Identifier: Apache-2.0
"""Which single loss would leave which service short (N+1): every node, NVLink domain and value of some labels is taken
away in turn, and what it held is placed anew on the rest. Nothing else moves and nobody gives way in that: what it says
holds without help.

Cost: one search of the nodes with room for every replica, for each kind of failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmgw.model.failure import Failure, Loss
from llmgw.model.ids import NodeName, ServiceName
from llmgw.model.placement import Assignment
from llmgw.placement.assign import Outcome
from llmgw.placement.board import Board
from llmgw.placement.tally import even_share

NODE, DOMAIN, RACK = "node", "domain", "rack"


def failures(outcome: Outcome, labels: Iterable[str] = ()) -> tuple[Failure, ...]:
    """What each single loss would mean, by kind and name. `labels`: failure domains beside those that services are
    spread over, and `rack` where nodes have it. Losses that touch nothing are left out. The board stays as it is.
    """
    board = outcome.board
    return tuple(
        Failure(kind, name, nodes, losses)
        for kind, name, nodes in _groups(board, labels)
        if (losses := _losses(board, frozenset(nodes)))
    )


def failure_labels(board: Board) -> tuple[str, ...]:
    """The labels whose values fail together: those that services are spread over, and `rack`."""
    spreads = {service.spread for service in board.catalog.services if service.spread not in (None, NODE)}
    return tuple(sorted({*(name for name in spreads if name), RACK}))


def _groups(board: Board, labels: Iterable[str]) -> Iterator[tuple[str, str, tuple[NodeName, ...]]]:
    for name in board.ledgers:
        yield NODE, name, (name,)
    for domain in board.fleet.domains:
        yield DOMAIN, domain.name, tuple(sorted(member.node for member in domain.members))
    for label in sorted({*failure_labels(board), *labels}):
        values: dict[str, list[NodeName]] = {}
        for name, ledger in board.ledgers.items():
            if label in ledger.node.labels:
                values.setdefault(ledger.node.labels[label], []).append(name)
        for value, names in sorted(values.items()):
            yield label, value, tuple(names)


def _losses(board: Board, gone: frozenset[NodeName]) -> tuple[Loss, ...]:
    """What each service loses with these nodes, and how much of it finds no other place."""
    lost = {replica: one for name in gone if name in board.on_node for replica, one in board.on_node[name].items()}
    if not lost:
        return ()
    replicas: dict[str, int] = {one.service.name: 0 for one in lost.values()}
    for one in board.assigned.values():
        if one.service.name in replicas:
            replicas[one.service.name] += 1
    short = dict.fromkeys(replicas, 0)
    for name in _homeless(board, gone, list(lost.values())):
        short[name] += 1
    counts = {name: sum(one.service.name == name for one in lost.values()) for name in replicas}
    wanted: dict[str, int] = {one.service.name: one.service.replicas for one in lost.values()}
    return tuple(
        Loss(ServiceName(name), replicas[name], counts[name], short[name], wanted[name]) for name in sorted(replicas)
    )


def _homeless(board: Board, gone: frozenset[NodeName], lost: list[Assignment]) -> list[str]:
    """The services of lost replicas that fit nowhere else, those of higher priority placed first."""
    without: list[str] = []
    taken: list[Assignment] = []
    shares = {one.service.name: board.tally(one.service).share for one in lost}
    for one in lost:
        board.give_back(one)
    for one in lost:
        tally = board.tally(one.service)
        able = {name for each in one.service.profiles for name in board.eligible(one.service, each)} - gone
        tally.share = even_share(one.service, (board.ledgers[name].node for name in sorted(able)))
    for one in sorted(lost, key=_first_placed):
        found = next(
            (new for each in one.service.profiles if (new := board.find(one.service, each, one.replica, outside=gone))),
            None,
        )
        if found is None:
            without.append(one.service.name)
        else:
            board.take(found)
            taken.append(found)
    for new in reversed(taken):
        board.give_back(new)
    for one in lost:
        board.take(one)
        board.tally(one.service).share = shares[one.service.name]
    return without


def _first_placed(one: Assignment) -> tuple[int, int, int, str]:
    return -one.service.priority, -one.profile.nodes, -one.profile.gpus, one.replica
