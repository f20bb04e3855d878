# SPDX-License-Identifier: Apache-2.0
"""Why a replica is where it is, or has no place: an answer to `plan --why` from a placement that is made (P11).

Everything is said of the fleet as it stands once all of the plan has its place. Cost: one look at every node and
profile; trials of relaxations cost only the nodes that they are about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from llmgw.model.ids import NodeName, ReplicaId
from llmgw.model.placement import Assignment, ScoreTerm, Unplaced
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.model.why import NodeWhy, Place, ReplicaWhy, Why, WhyState
from llmgw.placement.assign import Outcome
from llmgw.placement.board import Board
from llmgw.placement.score import total
from llmgw.placement.why.checks import checks, failing
from llmgw.placement.why.relaxations import relaxations

RUNNERS_UP = 5
"""Nodes whose score is compared with the chosen one's term by term."""
_TERMS = 3
_NEARLY = 0.005


def explain(
    catalog: Catalog,
    outcome: Outcome,
    service: str,
    number: int | None = None,
    nodes: Collection[NodeName] | None = None,
) -> Why:
    """The answer for a service of the catalog, or for one of its replicas. `nodes`: those to look at closely and alone.

    The outcome is as it was afterwards. Raises KeyError for a service or replica that there is not.
    """
    spec = next((one for one in catalog.services if one.name == service), None)
    if spec is None:
        raise KeyError(service)
    answer = _Answer(outcome, spec)
    asked = answer.replicas if number is None else {number: answer.replicas[number]}
    subject = _subject(asked.values())
    why = Why(
        spec.name,
        None if number is None else asked[number].replica,
        None if subject is None else subject.replica,
        spec.replicas,
        tuple(asked.values()),
        asked_nodes=None if nodes is None else tuple(sorted(nodes)),
    )
    return why if subject is None else answer.about(why, subject)


def _subject(replicas: Iterable[ReplicaWhy]) -> ReplicaWhy | None:
    """The replica that the nodes are asked about: the first without a place, or the first."""
    order = [WhyState.UNPLACED, WhyState.HELD, WhyState.PLACED, WhyState.KEPT]
    return min(replicas, key=lambda one: order.index(one.state), default=None)


@dataclass(slots=True)
class _Answer:
    outcome: Outcome
    service: ServiceSpec

    @property
    def board(self) -> Board:
        return self.outcome.board

    @property
    def replicas(self) -> dict[int, ReplicaWhy]:
        """How it stands with every replica of the service, by number."""
        found = [_assigned(one, self.outcome) for one in self._assignments()]
        found += [self._unplaced(one) for one in self.outcome.placement.unplaced if one.service == self.service.name]
        by_number = {int(one.replica.rpartition("/")[2]): one for one in found}
        return dict(sorted(by_number.items()))

    def _assignments(self) -> Iterator[Assignment]:
        return (one for one in self.outcome.placement.assignments if one.service.name == self.service.name)

    def _unplaced(self, one: Unplaced) -> ReplicaWhy:
        if one.held is not None:
            return ReplicaWhy(one.replica, WhyState.HELD, one.held)
        if one.gave_way_to is not None:
            return ReplicaWhy(one.replica, WhyState.UNPLACED, f"gave way to {one.gave_way_to} and fits nowhere else")
        left = self.outcome.displaced.get(one.replica)
        if left is not None:
            where = ", ".join(left[0].nodes)
            reason = f"has to leave {where} ({left[1]}), goes on there, and fits nowhere else"
            return ReplicaWhy(one.replica, WhyState.UNPLACED, reason)
        count = len(self.board.ledgers)
        nowhere = f"fits on none of {count} nodes" if count > 1 else "does not fit on the one node"
        return ReplicaWhy(one.replica, WhyState.UNPLACED, nowhere if count else "finds no nodes in the inventory")

    def about(self, why: Why, subject: ReplicaWhy) -> Why:
        """The answer with what the nodes say about one replica."""
        now = self.board.assigned.get(subject.replica)
        if now is not None:
            self.board.give_back(now)
        try:
            nodes = tuple(self._nodes(subject.replica, now, why.asked_nodes))
            fresh = self._fresh(subject.replica, now)
        finally:
            if now is not None:
                self.board.take(now)
        why = replace(why, nodes=nodes, fresh=fresh)
        if subject.state is not WhyState.UNPLACED:
            return why
        return replace(why, relaxations=relaxations(self.outcome, self.service, subject.replica, nodes))

    def _fresh(self, replica: ReplicaId, now: Assignment | None) -> Place | None:
        """Where a kept replica would be placed, if that is elsewhere."""
        if now is None or not now.kept:
            return None
        found = (self.board.find(self.service, profile, replica) for profile in self.service.profiles)
        best = next((one for one in found if one is not None), None)
        if best is None or {one.node for one in best.members} == {one.node for one in now.members}:
            return None
        return place_of(best, self.board)

    def _nodes(
        self, replica: ReplicaId, now: Assignment | None, asked: Collection[NodeName] | None
    ) -> Iterator[NodeWhy]:
        for profile in self.service.profiles:
            whys = [self._node(profile, name, asked) for name in self.board.ledgers if asked is None or name in asked]
            yield from self._scored(profile, whys, replica, now, closely=asked is not None)

    def _node(self, profile: ProfileSpec, name: NodeName, asked: Collection[NodeName] | None) -> NodeWhy:
        node = self.board.ledgers[name].node
        refused = failing(self.board, self.service, profile, node)
        all_checks = None if asked is None else checks(self.board, self.service, profile, node)
        return NodeWhy(name, profile.name, refused, checks=all_checks)

    def _scored(
        self,
        profile: ProfileSpec,
        whys: Iterable[NodeWhy],
        replica: ReplicaId,
        now: Assignment | None,
        *,
        closely: bool,
    ) -> Iterator[NodeWhy]:
        """The nodes with the score that each would get; the best of them, and those asked for, term by term."""
        ask = self.board.ask(self.service, profile)
        mine = now if now is not None and now.profile.name == profile.name else None
        here = {member.node for member in mine.members} if mine else set()
        totals: dict[NodeName, float] = {}
        whys = list(whys)
        for why in whys:
            rank = self.board.rank(ask, self.board.ledgers[why.node]) if why.fits else None
            if rank is not None:
                totals[why.node] = rank
        best = sorted((name for name in totals if name not in here), key=lambda name: (-totals[name], name))
        close = set(totals) if closely else {*here, *best[:RUNNERS_UP]}
        terms = {name: self._terms(profile, replica, name) for name in sorted(close & totals.keys())}
        chosen = next((terms[name] for name in sorted(here) if name in terms), ())
        for why in whys:
            compared = None
            if why.node not in here and why.fits and now is not None:
                compared = _compared(now, mine, chosen, terms.get(why.node, ()))
            yield replace(
                why,
                score=terms.get(why.node, ()),
                total=totals.get(why.node),
                chosen=why.node in here,
                compared=compared,
            )

    def _terms(self, profile: ProfileSpec, replica: ReplicaId, name: NodeName) -> tuple[ScoreTerm, ...]:
        found = self.board.on(self.board.ask(self.service, profile), replica, self.board.ledgers[name])
        return () if found is None else found.score


def _assigned(one: Assignment, outcome: Outcome) -> ReplicaWhy:
    place = place_of(one, outcome.board)
    where = ", ".join(member.node for member in one.members)
    if one.kept:
        return ReplicaWhy(one.replica, WhyState.KEPT, f"runs on {where} and stays", place)
    left = outcome.displaced.get(one.replica)
    reason = f"goes to {where}"
    if left is not None and where != ", ".join(left[0].nodes):
        reason = f"moves from {', '.join(left[0].nodes)} to {where}: {left[1]}"
    elif left is not None:
        reason = f"starts anew on {where}: {left[1]}"
    if one.preempts:
        reason += f"; {', '.join(one.preempts)} gave way"
    return ReplicaWhy(one.replica, WhyState.PLACED, reason, place)


def place_of(one: Assignment, board: Board) -> Place:
    """A place with its devices as people name them."""
    names = []
    for member in one.members:
        known = {device.uuid: device for device in board.ledgers[member.node].node.devices or ()}
        for uuid in member.devices:
            device = known.get(uuid)
            names.append(uuid if device is None else f"{device.display_name} ({device.device_class})")
    return Place(one.profile.name, one.members, tuple(names), one.score, total(one.score) if one.score else None)


def _compared(
    now: Assignment, mine: Assignment | None, chosen: tuple[ScoreTerm, ...], terms: tuple[ScoreTerm, ...]
) -> str:
    """Why a replica is not on a node where it would fit."""
    if mine is None:
        return f"profile {now.profile.name} comes first"
    if not chosen or not terms:
        return "another node scores more"
    more = total(terms) - total(chosen)
    because = _because(terms, chosen)
    if abs(more) <= _NEARLY:
        return "it scores the same" if now.kept else "it scores the same, and the first by name is taken"
    if more < 0:
        return f"it scores {-more:.2f} less{because}"
    if now.kept:
        return f"it scores {more:.2f} more{because}"
    return f"it scores {more:.2f} more by what was placed after {now.replica}{because}"


def _because(terms: tuple[ScoreTerm, ...], chosen: tuple[ScoreTerm, ...]) -> str:
    """The terms that make the difference, the largest first: `: weights-here -6.00, idle +0.50`."""
    other = {term.name: term.value * term.weight for term in chosen}
    changes = Counter({term.name: term.value * term.weight - other.get(term.name, 0.0) for term in terms})
    largest = sorted(changes, key=lambda name: (-abs(changes[name]), name))[:_TERMS]
    told = ", ".join(f"{name} {changes[name]:+.2f}" for name in largest if abs(changes[name]) > _NEARLY)
    return f": {told}" if told else ""
