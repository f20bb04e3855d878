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
from llmgw.model.placement import Assignment, ScoreTerm
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.model.why import NodeWhy, Place, ReplicaWhy, Why, WhyState
from llmgw.placement.assign import Outcome
from llmgw.placement.board import Board
from llmgw.placement.score import total
from llmgw.placement.why.checks import checks, failing
from llmgw.placement.why.first import comes_first, hardware_helps
from llmgw.placement.why.relaxations import relaxations
from llmgw.placement.why.states import States, place_of, subject_of

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
    subject = subject_of(asked.values())
    why = Why(
        spec.name,
        None if number is None else asked[number].replica,
        None if subject is None else subject.replica,
        spec.replicas,
        tuple(asked.values()),
        asked_nodes=None if nodes is None else tuple(sorted(nodes)),
    )
    return why if subject is None else answer.about(why, subject)


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
        states = States(self.outcome)
        found = [states.assigned(one) for one in self._assignments()]
        found += [states.unplaced(one) for one in self.outcome.placement.unplaced if one.service == self.service.name]
        by_number = {int(one.replica.rpartition("/")[2]): one for one in found}
        return dict(sorted(by_number.items()))

    def _assignments(self) -> Iterator[Assignment]:
        return (one for one in self.outcome.placement.assignments if one.service.name == self.service.name)

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
        return replace(
            why,
            first=tuple(comes_first(self.board, self.service, nodes)),
            relaxations=relaxations(self.outcome, self.service, subject.replica, nodes),
            hardware=hardware_helps(self.service, nodes),
        )

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
