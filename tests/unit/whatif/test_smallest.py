# SPDX-License-Identifier: Apache-2.0
"""The smallest number of nodes of a kind with which everything fits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from llmgw.decide import decide
from llmgw.errors import LlmgwError
from llmgw.model.ids import ReplicaId, ServiceName
from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Placement, Unplaced
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


def stepwise(*steps: tuple[int, int]) -> Callable[[Catalog, FleetSnapshot], Placement]:
    """Places so that from so many nodes on so many replicas have no place."""

    def judge(_wanted: Catalog, snapshot: FleetSnapshot) -> Placement:
        lacking = [count for number, count in steps if number <= len(snapshot.nodes)][-1]
        return Placement((), tuple(Unplaced(ReplicaId(f"a/{at}"), ServiceName("a"), ()) for at in range(lacking)))

    return judge


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
    assert asked(catalog(cards("a", 3)), fleet(node("n1", 8))).needs == ()


def test_replicas_that_are_held_back_need_no_hardware() -> None:
    blind = node("n1", 8, units=None, generation=3)
    found = asked(catalog(cards("a", 2)), fleet(blind))
    assert (found.nodes, found.missing, found.held) == (0, 0, 2)


def test_a_large_number_is_found_by_halving_and_that_is_told() -> None:
    found = smallest(catalog(cards("a", 500)), fleet(), kind_spec("h200x8"), stepwise((0, 500), (300, 400), (333, 0)))
    assert (found.nodes, found.exact, found.monotone) == (333, False, True)
    assert len(found.tried) < 25
    assert dict(found.tried)[332] == 400


def test_no_more_than_a_thousand_nodes_are_tried() -> None:
    found = smallest(catalog(cards("a", 9000)), fleet(), kind_spec("h200x8"), stepwise((0, 9000), (1, 5)))
    assert (found.bound, found.nodes, len(found.never)) == (max(MAX_NODES, 5), 1, 5)


def test_a_small_answer_is_the_smallest_even_where_more_nodes_place_less() -> None:
    found = smallest(catalog(cards("a", 9)), fleet(), kind_spec("h200x8"), stepwise((0, 9), (3, 0), (4, 2), (6, 0)))
    assert (found.nodes, found.monotone, found.exact) == (3, False, True)


def test_where_more_nodes_placed_less_a_large_answer_says_so() -> None:
    steps = ((0, 99), (1, 50), (2, 60), (40, 0))
    found = smallest(catalog(cards("a", 99)), fleet(), kind_spec("h200x8"), stepwise(*steps))
    assert (found.nodes, found.monotone, found.exact) == (40, False, False)


def test_a_class_that_is_not_there_is_refused() -> None:
    with pytest.raises(LlmgwError, match="no device class is known by the name h300"):
        asked(catalog(cards("a", 1)), fleet(node("n1", 8)), "h300x8")


@settings(max_examples=40)
@given(case=cases())
def test_the_answer_is_enough_and_one_node_less_is_not(case: Case) -> None:
    found = smallest(case.first, case.fleet, kind_spec("h200x4,label=rack:a"), placed)

    def lacking(count: int) -> int:
        snapshot = case.fleet
        if count:
            snapshot = with_nodes(case.first, snapshot, nodes_spec(f"{count}xh200x4,label=rack:a"))[0]
        return sum(one.held is None for one in placed(case.first, snapshot).unplaced)

    assert found.missing == lacking(0)
    if found.nodes is None:
        assert lacking(found.bound) >= found.missing
    elif found.nodes:
        assert lacking(found.nodes) <= len(found.never) < lacking(found.nodes - 1)


def test_a_need_says_how_many_stay_without() -> None:
    found = asked(catalog(cards("a", 1), cards("odd", 2, pool="dev")), fleet())
    assert Need(ServiceName("odd"), 2, None, 2) in found.needs
