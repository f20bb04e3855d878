# SPDX-License-Identifier: Apache-2.0
"""The smallest number of nodes of a kind with which everything fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings

from llmgw.decide import decide
from llmgw.errors import LlmgwError
from llmgw.model.ids import NodeName, ProfileName, ReplicaId, ServiceName
from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Placement, Rejection, Unplaced
from llmgw.model.replica import Catalog, ServiceSpec
from llmgw.whatif.nodes import with_nodes
from llmgw.whatif.smallest import Need, Smallest, smallest
from llmgw.whatif.spec import MAX_NODES, kind_spec, nodes_spec
from tests.properties.cases import Case, cases
from tests.support.fleets import catalog, fleet, node, profile, service


def placed(wanted: Catalog, snapshot: FleetSnapshot) -> Placement:
    return decide(wanted, snapshot).placement


def cards(name: str, replicas: int, gpus: int = 8, pool: str | None = None) -> ServiceSpec:
    selector = {} if pool is None else {"pool": pool}
    return service(name, replicas, (profile(name, classes=("h200-141g",), gpus=gpus, node_selector=selector),))


def asked(wanted: Catalog, snapshot: FleetSnapshot, kind: str = "h200x8") -> Smallest:
    return smallest(wanted, snapshot, kind_spec(kind), placed)


def stepwise(
    *steps: tuple[int, int], alone: tuple[tuple[int, int], ...] = ()
) -> Callable[[Catalog, FleetSnapshot], Placement]:
    """Places so that from so many new nodes on so many replicas have no place; `alone`: where there are no others."""

    def judge(_wanted: Catalog, snapshot: FleetSnapshot) -> Placement:
        new = sum(one.name.startswith("new-") for one in snapshot.nodes)
        known = alone if alone and new == len(snapshot.nodes) else steps
        lacking = [count for number, count in known if number <= new][-1]
        return Placement((), tuple(Unplaced(ReplicaId(f"a/{at}"), ServiceName("a"), ()) for at in range(lacking)))

    return judge


def many(count: int) -> FleetSnapshot:
    return fleet(*(node(f"n{number}") for number in range(count)))


def test_so_many_nodes_as_hold_what_is_missing_and_not_one_more() -> None:
    found = asked(catalog(cards("a", 4), cards("b", 2, gpus=4)), fleet(node("n1", 8)))
    assert (found.nodes, found.kind, found.never, found.exact) == (4, "8 x h200-141g", (), True)
    assert dict(found.tried)[3] > dict(found.tried)[4] == 0


def test_no_node_is_needed_where_everything_has_a_place() -> None:
    found = asked(catalog(cards("a", 1)), fleet(node("n1", 8)))
    assert (found.nodes, found.missing, found.tried) == (0, 0, ((0, 0),))


def test_what_no_number_of_nodes_helps_is_told_with_its_reason_on_a_new_one() -> None:
    wanted = catalog(cards("a", 2), cards("odd", 1, pool="dev"))
    found = asked(wanted, fleet(node("n1", 8, labels={"pool": "prod"})))
    assert (found.nodes, found.missing) == (1, 2)
    assert [(one.replica, one.reasons) for one in found.never] == [
        ("odd/0", ("needs label pool=dev, has pool=prod",)),
    ]
    with_label = asked(wanted, fleet(node("n1", 8, labels={"pool": "prod"})), "h200x8,label=pool:dev")
    assert (with_label.nodes, with_label.never) == (2, ())


def test_the_reasons_of_replicas_that_share_them_are_told_for_each() -> None:
    found = asked(catalog(cards("odd", 3, pool="dev")), fleet(node("n1", 8)))
    assert (found.nodes, len(found.never)) == (None, 3)
    assert {one.reasons for one in found.never} == {("needs label pool=dev, has no such label",)}


def test_nodes_that_are_too_small_help_nothing_and_that_is_said_by_how_much() -> None:
    found = asked(catalog(cards("a", 2)), fleet(node("n1", 8)), "h200x4")
    assert found.nodes is None
    assert found.never[0].reasons == ("has 4 free of 4 h200-141g, needs 8",)


def test_each_service_is_asked_for_alone_where_several_lack_places() -> None:
    wanted = catalog(cards("a", 3), cards("b", 2), cards("odd", 1, pool="dev"), cards("ok", 1, 4))
    found = asked(wanted, fleet(node("n1", 8), node("n2", 4)))
    assert found.nodes == 4
    alone = {one.service: (one.missing, one.nodes, one.never) for one in found.needs}
    assert alone == {"a": (2, 2, 0), "b": (2, 2, 0), "odd": (1, None, 1)}


def test_replicas_that_are_held_back_need_no_hardware() -> None:
    blind = node("n1", 8, units=None, generation=3)
    found = asked(catalog(cards("a", 2)), fleet(blind))
    assert (found.nodes, found.missing, found.held) == (0, 0, 2)


def test_a_large_number_is_found_in_few_steps_and_they_are_told() -> None:
    found = smallest(catalog(cards("a", 500)), many(9), kind_spec("h200x8"), stepwise((0, 500), (300, 400), (333, 0)))
    assert (found.nodes, found.exact, found.monotone) == (333, False, True)
    assert len(found.tried) < 12
    assert dict(found.tried)[332] == 400


def test_no_more_than_a_thousand_nodes_are_tried() -> None:
    found = smallest(catalog(cards("a", 9000)), fleet(), kind_spec("cpu"), stepwise((0, 9000), (900, 5)))
    assert (found.nodes, len(found.never)) == (900, 5)
    assert max(number for number, _count in found.tried) <= MAX_NODES


def test_a_small_answer_is_the_smallest_even_where_more_nodes_place_less() -> None:
    found = smallest(catalog(cards("a", 9)), fleet(), kind_spec("h200x8"), stepwise((0, 9), (3, 0), (4, 2), (6, 0)))
    assert (found.nodes, found.monotone, found.exact) == (3, False, True)


def test_where_more_nodes_placed_less_a_large_answer_says_so() -> None:
    steps = ((0, 99), (37, 50), (38, 60), (40, 0))
    found = smallest(catalog(cards("a", 99)), many(90), kind_spec("h200x8"), stepwise(*steps, alone=((0, 99), (30, 0))))
    assert (found.nodes, found.monotone, found.exact) == (40, False, False)


def test_nodes_that_help_alone_and_not_in_the_fleet_are_no_answer() -> None:
    judge = stepwise((0, 5), alone=((0, 5), (1, 0)))
    found = smallest(catalog(cards("a", 5)), many(2), kind_spec("h200x8"), judge)
    assert (found.nodes, len(found.never)) == (None, 5)


def test_the_reason_is_that_of_the_new_node_that_comes_nearest() -> None:
    def judge(_wanted: Catalog, snapshot: FleetSnapshot) -> Placement:
        told = [("new-1", "is full"), ("new-1", "has no memory"), ("new-2", "new-2 has no memory"), ("n0", "is old")]
        there = {one.name for one in snapshot.nodes}
        rejections = tuple(
            Rejection(ServiceName("a"), ProfileName("a"), NodeName(name), "x", text)
            for name, text in told
            if name in there
        )
        first = Unplaced(ReplicaId("a/0"), ServiceName("a"), rejections)
        return Placement((), (first, Unplaced(ReplicaId("a/1"), ServiceName("a"), (), like=first.replica)))

    found = smallest(catalog(cards("a", 2)), many(1), kind_spec("h200x8"), judge)
    assert [(one.replica, one.reasons) for one in found.never] == [
        ("a/0", ("has no memory",)),
        ("a/1", ("has no memory",)),
    ]


def test_a_class_that_is_not_there_is_refused() -> None:
    with pytest.raises(LlmgwError, match="no device class is known by the name h300"):
        asked(catalog(cards("a", 1)), fleet(node("n1", 8)), "h300x8")


def test_a_place_that_opens_elsewhere_does_not_stand_for_one_on_new_nodes() -> None:
    # With one node, what fits on none of them gets a place that another left; with two, what fits on them has one too.
    def judge(wanted: Catalog, snapshot: FleetSnapshot) -> Placement:
        new = sum(one.name.startswith("new-") for one in snapshot.nodes)
        lacking = {0: ("fits", "never"), 1: ("fits",)}.get(new, ("never",))
        if new == len(snapshot.nodes):
            lacking = ("never",) if new else ("fits", "never")
        there = {one.name for one in wanted.services}
        return Placement(
            (), tuple(Unplaced(ReplicaId(f"{one}/0"), ServiceName(one), ()) for one in lacking if one in there)
        )

    found = smallest(catalog(cards("fits", 1), cards("never", 1)), many(2), kind_spec("h200x8"), judge)
    assert (found.nodes, [one.replica for one in found.never]) == (2, ["never/0"])


@settings(max_examples=40)
@given(case=cases())
def test_the_answer_is_enough_and_one_node_less_is_not(case: Case) -> None:
    kind = "h200x4,label=rack:a"
    found = smallest(case.first, case.fleet, kind_spec(kind), placed)
    never = {need.service: need.never for need in found.needs}

    def lacking(count: int) -> Counter[ServiceName]:
        snapshot = with_nodes(case.first, case.fleet, nodes_spec(f"{count}x{kind}"))[0] if count else case.fleet
        return Counter(one.service for one in placed(case.first, snapshot).unplaced if one.held is None)

    def enough(count: int) -> bool:
        return all(number <= never.get(name, 0) for name, number in lacking(count).items())

    assert found.missing == lacking(0).total()
    if found.nodes is None:
        assert lacking(30).total() >= found.missing
    elif found.nodes:
        assert lacking(found.nodes).total() == len(found.never)
        # Others may leave for the new nodes what does not fit there itself.
        assert not enough(found.nodes - 1) or lacking(found.nodes - 1).total() > len(found.never)
        if not enough(found.nodes):
            assert not enough(30)


def test_a_need_says_how_many_stay_without() -> None:
    found = asked(catalog(cards("a", 1), cards("odd", 2, pool="dev")), fleet())
    assert Need(ServiceName("odd"), 2, None, 2) in found.needs


def test_new_nodes_may_help_what_does_not_fit_on_them() -> None:
    """`any` goes to the new card and leaves the old class to `old`, which the new nodes lack."""
    there = fleet(node("n1", gpus=1, device_class="l40s-45g"))
    either = service("any", 1, (profile("any", classes=("h200-141g", "l40s-45g"), gpus=1),), priority=1)
    old = service("old", 1, (profile("old", classes=("l40s-45g",), gpus=1),))
    found = smallest(catalog(either, old), there, kind_spec("h200x4"), placed)
    assert (found.nodes, found.never) == (1, ())
