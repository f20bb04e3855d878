# SPDX-License-Identifier: Apache-2.0
"""What must hold of every answer to `plan --why`. Each property has a seeded defect that makes it fail, tried by the
last test.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import Catalog
from llmgw.model.why import Check, Cost, ReplicaWhy, Why, WhyState
from llmgw.placement.assign import place
from llmgw.placement.why import explain, relaxations
from llmgw.placement.why.checks import checks
from llmgw.placement.why.trial import Trials
from tests.properties import placement_cases as placement
from tests.properties.cases import Case, cases
from tests.properties.placement_cases import placement_cases
from tests.support.operator import done
from tests.support.world import World

_NOT_OF_CATALOG_OR_FACTS = "move"


def _answers(case: Case) -> Iterator[tuple[Catalog, FleetSnapshot, Why]]:
    """Every question about a fresh fleet, and about one that runs the first catalog and gets the second."""
    world = World(case.fleet)
    world.apply(case.first)
    for catalog, fleet in ((case.first, case.fleet), (case.second, world.fleet)):
        yield from ((catalog, fleet, why) for why in _all_about(catalog, fleet))


def _all_about(catalog: Catalog, fleet: FleetSnapshot) -> Iterator[Why]:
    """Every service, and every replica without a place."""
    outcome = place(catalog, fleet)
    waiting = [one.replica.split("/") for one in outcome.placement.unplaced]
    asked: list[tuple[str, int | None]] = [(one.name, None) for one in catalog.services]
    asked += [(service, int(number)) for service, number in waiting]
    for service, number in asked:
        yield explain.explain(catalog, outcome, service, number)


def every_relaxation_places_the_replica(case: Case) -> None:
    for catalog, fleet, why in _answers(case):
        _relaxations_work(catalog, fleet, why)


def _relaxations_work(catalog: Catalog, fleet: FleetSnapshot, why: Why) -> None:
    for one in why.relaxations:
        if one.kind == _NOT_OF_CATALOG_OR_FACTS:
            continue
        for node in one.nodes[:1] if one.together else one.nodes:
            assert why.subject in place(*done(one, node, catalog, fleet)).board.assigned, (why.subject, one)


def what_has_no_place_has_a_reason_on_every_node(case: Case) -> None:
    for catalog, fleet, why in _answers(case):
        service = next(one for one in catalog.services if one.name == why.service)
        if why.subject is None:
            continue
        told = [(one.profile, one.node) for one in why.nodes]
        nodes = sorted(node.name for node in fleet.nodes)
        assert told == list(itertools.product((one.name for one in service.profiles), nodes))
        if _state(why) is WhyState.UNPLACED:
            assert all(one.failing for one in why.nodes)


def what_a_node_asked_about_says_is_what_it_says_among_all(case: Case) -> None:
    for catalog, fleet, why in _answers(case):
        if why.subject is None or why.replica is None:
            continue
        name = fleet.nodes[0].name
        number = int(why.replica.rpartition("/")[2])
        closely = explain.explain(catalog, place(catalog, fleet), why.service, number, (name,))
        assert [one.failing for one in closely.nodes] == [one.failing for one in why.nodes if one.node == name]
        for one in closely.nodes:
            failing = [check for check in one.checks or () if not check.passes]
            assert sorted(failing, key=repr) == sorted(one.failing, key=repr)


def asking_changes_nothing(case: Case) -> None:
    outcome = place(case.first, case.fleet)
    for service in case.first.services:
        first = explain.explain(case.first, outcome, service.name)
        assert explain.explain(case.first, outcome, service.name) == first
    assert outcome.placement == place(case.first, case.fleet).placement


def cheaper_relaxations_come_first(case: Case) -> None:
    order = list(Cost)
    for _catalog, _fleet, why in _answers(case):
        costs = [order.index(one.cost) for one in why.relaxations]
        assert costs == sorted(costs)
        assert len(costs) <= relaxations.MOST


def _state(why: Why) -> WhyState:
    return next(one.state for one in why.replicas if one.replica == why.subject)


PROPERTIES = [
    every_relaxation_places_the_replica,
    what_has_no_place_has_a_reason_on_every_node,
    what_a_node_asked_about_says_is_what_it_says_among_all,
    asking_changes_nothing,
    cheaper_relaxations_come_first,
]


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
@given(case=cases())
def test_every_answer(holds: Callable[[Case], None], case: Case) -> None:
    holds(case)


@given(case=placement_cases())
@settings(max_examples=40)
def test_every_relaxation_places_the_replica_on_joined_machines_too(case: placement.Case) -> None:
    for why in _all_about(case.catalog, case.fleet):
        _relaxations_work(case.catalog, case.fleet, why)


def _believe_every_edit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Trials, "fits", lambda *_arguments: True)


def _leave_the_last_node_out(patch: pytest.MonkeyPatch) -> None:
    whole = explain._Answer._nodes
    patch.setattr(explain._Answer, "_nodes", lambda *arguments: list(whole(*arguments))[:-1])


def _everything_is_met(patch: pytest.MonkeyPatch) -> None:
    def met(*asked: Any) -> tuple[Check, ...]:
        return tuple(replace(one, passes=True) for one in checks(*asked))

    patch.setattr("llmgw.placement.why.explain.checks", met)


def _forget_to_take_it_back(patch: pytest.MonkeyPatch) -> None:
    whole = explain._Answer.about

    def about(self: explain._Answer, why: Why, subject: ReplicaWhy) -> Why:
        told = whole(self, why, subject)
        placed = self.board.assigned.get(subject.replica)
        if placed is not None:
            self.board.give_back(placed)
        return told

    patch.setattr(explain._Answer, "about", about)


def _dearest_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(relaxations, "_cheapest_first", lambda one: (-list(Cost).index(one.cost),))


DEFECTS: dict[Callable[[Case], None], Callable[[pytest.MonkeyPatch], None]] = dict(
    zip(
        PROPERTIES,
        [
            _believe_every_edit,
            _leave_the_last_node_out,
            _everything_is_met,
            _forget_to_take_it_back,
            _dearest_first,
        ],
        strict=True,
    )
)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_every_property_fails_on_its_seeded_defect(
    holds: Callable[[Case], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    @settings(max_examples=400, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=cases())
    def defective(case: Case) -> None:
        DEFECTS[holds](monkeypatch)
        try:
            holds(case)
        finally:
            monkeypatch.undo()

    with pytest.raises((AssertionError, KeyError)):
        defective()
