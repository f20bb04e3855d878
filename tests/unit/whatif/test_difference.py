# SPDX-License-Identifier: Apache-2.0
"""What differs between the plan for what is there and the plan for what is supposed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.ids import DeviceClass, NodeName, ReplicaId, ServiceName
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.replica import Catalog, ServiceSpec
from llmgw.whatif.difference import Change, Count, Difference, Free, compare, side
from llmgw.whatif.spec import nodes_spec
from llmgw.whatif.suppose import Suppositions, suppose
from tests.properties.cases import Case, cases
from tests.support.fleets import catalog, fleet, node, profile, service, with_facts
from tests.support.world import World

H200 = DeviceClass("h200-141g")


def cards(name: str, replicas: int, gpus: int = 8) -> ServiceSpec:
    return service(name, replicas, (profile(name, classes=("h200-141g",), gpus=gpus),))


def difference(wanted: Catalog, snapshot: FleetSnapshot, supposed: Suppositions) -> Difference:
    after = suppose(wanted, snapshot, supposed)
    return compare(side(wanted, snapshot), side(after.catalog, after.fleet))


def running(wanted: Catalog, *nodes: Node) -> FleetSnapshot:
    world = World(fleet(*nodes))
    world.apply(wanted)
    return world.fleet


def test_what_lacked_a_place_has_one_on_new_nodes() -> None:
    found = difference(catalog(cards("big", 3)), fleet(node("n1", 8)), Suppositions((nodes_spec("1xh200x8"),)))
    assert found.gained == (Change(ReplicaId("big/1"), (), (NodeName("new-1"),)),)
    assert [one.replica for one in found.unplaced] == ["big/2"]
    assert found.services == (Count(ServiceName("big"), 1, 3, 2, 3),)
    assert found.devices == (Free(H200, 0, 8, 0, 16),)


def test_replicas_move_from_a_node_that_is_not_there_and_others_stay() -> None:
    wanted = catalog(cards("a", 3, gpus=4))
    snapshot = running(wanted, node("n1", 8), node("n2", 8), node("n3", 8))
    there = {one.replica for one in side(wanted, snapshot).decision.placement.assignments if one.leader.node == "n1"}
    found = difference(wanted, snapshot, Suppositions(without=("n1",)))
    assert there
    assert {one.replica for one in found.moves} == there
    assert {one.runs for one in found.moves} == {True}
    assert not {one.after for one in found.moves} & {(), ("n1",)}
    assert (found.gained, found.fits_no_more, found.unplaced, found.elsewhere) == ((), (), (), ())


def test_what_has_no_place_any_more_is_told_with_where_it_was() -> None:
    wanted = catalog(cards("a", 1), cards("b", 1))
    snapshot = running(wanted, node("n1", 8), node("n2", 8))
    found = difference(wanted, snapshot, Suppositions(drained=("n1",)))
    assert [(one.before, one.after) for one in found.fits_no_more] == [(("n1",), ())]
    assert found.devices == (Free(H200, 0, 16, 0, 16),)


def test_what_fell_out_is_told_why() -> None:
    wanted = catalog(cards("a", 1), cards("b", 1))
    snapshot = running(wanted, node("n1", 8), node("n2", 8))
    (drained,) = difference(wanted, snapshot, Suppositions(drained=("n1",))).fits_no_more
    assert drained.why == "n1 is drained; n2: has 0 free of 8 h200-141g, needs 8"
    (gone,) = difference(wanted, snapshot, Suppositions(without=("n1",))).fits_no_more
    assert gone.why == "n1 is not there; n2: has 0 free of 8 h200-141g, needs 8"
    (more,) = difference(wanted, snapshot, Suppositions(scale=(("b", 2),))).unplaced
    assert more.why == "n1, n2: has 0 free of 8 h200-141g, needs 8"


def test_what_gave_way_is_told_to_whom() -> None:
    low, high = cards("a", 1), replace(cards("b", 1), priority=9)
    snapshot = running(catalog(low, replace(high, replicas=0)), node("n1", 8))
    (one,) = difference(catalog(low, replace(high, replicas=0)), snapshot, Suppositions(scale=(("b", 1),))).fits_no_more
    assert (one.why or "").startswith("gives way to b/0")


def test_a_node_that_nobody_can_tell_of_is_not_near() -> None:
    snapshot = running(
        catalog(cards("a", 1)), node("n1", 8), replace(node("n0", 8), state=NodeState.UNSEEN, facts=None, devices=None)
    )
    (one,) = difference(catalog(cards("a", 1)), snapshot, Suppositions(scale=(("a", 2),))).unplaced
    assert one.why == "n1: has 0 free of 8 h200-141g, needs 8"


def test_cards_that_no_node_has_are_told_as_such() -> None:
    wanted = catalog(service("a", 1, (profile("a", classes=("b200-180g",), gpus=1),)))
    (one,) = difference(wanted, fleet(node("n1", 8)), Suppositions()).unplaced
    assert one.why == "no node that is known has such devices"


def test_a_plan_that_is_not_carried_out_may_change_without_a_move() -> None:
    found = difference(catalog(cards("a", 1)), fleet(node("n1", 8), node("n2", 8)), Suppositions(drained=("n1",)))
    assert found.moves == ()
    assert [(one.replica, one.before, one.after) for one in found.elsewhere] == [("a/0", ("n1",), ("n2",))]


def test_replicas_that_are_asked_for_only_now_and_not_any_more() -> None:
    wanted = catalog(cards("a", 2))
    snapshot = running(wanted, node("n1", 8), node("n2", 8))
    more = difference(wanted, snapshot, Suppositions(scale=(("a", 3),)))
    assert [(one.replica, one.asked_before) for one in more.unplaced] == [("a/2", False)]
    fewer = difference(wanted, snapshot, Suppositions(scale=(("a", 1),)))
    assert [(one.replica, one.before) for one in fewer.dropped] == [("a/1", ("n2",))]
    assert fewer.devices == (Free(H200, 0, 16, 8, 16),)


def test_other_devices_of_the_same_node_are_a_move() -> None:
    wanted = catalog(cards("a", 1, gpus=1))
    snapshot = running(wanted, node("n1", 2))
    before = side(wanted, snapshot)
    held = before.decision.placement.assignments[0].leader.devices
    one = snapshot.nodes[0]
    assert one.facts is not None
    rest = with_facts(
        one, replace(one.facts, gpus=tuple(card for card in one.facts.gpus or () if card.uuid != held[0]))
    )
    found = compare(before, side(wanted, replace(snapshot, nodes=(rest,))))
    assert [(change.before, change.after) for change in found.moves] == [(("n1",), ("n1",))]


@pytest.mark.parametrize("closed", [{"cordoned": True}, {"drained": True}, {"units": None}])
def test_devices_that_take_nothing_new_are_not_free(closed: dict[str, bool]) -> None:
    snapshot = fleet(node("n1", 4, **closed), node("n2", 2))
    (free,) = compare(side(catalog(), snapshot), side(catalog(), snapshot)).devices
    assert (free.free_before, free.total_before, free.changed) == (2, 6, False)


def test_devices_of_every_class_are_counted_on_both_sides() -> None:
    first, second = fleet(node("n1", 2)), fleet(node("n2", 3, device_class="l40s-45g"))
    found = compare(side(catalog(), first), side(catalog(), second)).devices
    assert [(one.device_class, one.total_before, one.total_after) for one in found] == [
        ("h200-141g", 2, 0),
        ("l40s-45g", 0, 3),
    ]


@given(case=cases())
def test_nothing_supposed_differs_in_nothing(case: Case) -> None:
    one = side(case.first, case.fleet)
    found = compare(one, one)
    assert (found.gained, found.fits_no_more, found.dropped, found.moves, found.elsewhere) == ((), (), (), (), ())
    assert not [count for count in found.services if count.changed]
    assert not [count for count in found.devices if count.changed]


@given(case=cases(), data=st.data())
def test_every_replica_is_accounted_for_once(case: Case, data: st.DataObject) -> None:
    world = World(case.fleet)
    world.apply(case.first)
    name = data.draw(st.sampled_from([one.name for one in case.fleet.nodes]))
    supposed = [Suppositions(without=(name,)), Suppositions(drained=(name,)), Suppositions(lost=(name,))]
    wanted = data.draw(st.sampled_from([*supposed, Suppositions(uncordoned=(name,))]))
    after = suppose(case.first, world.fleet, wanted)
    before, then = side(case.first, world.fleet), side(after.catalog, after.fleet)
    found = compare(before, then)
    told = [*found.gained, *found.fits_no_more, *found.unplaced, *found.dropped, *found.moves, *found.elsewhere]
    assert len({one.replica for one in told}) == len(told)
    placed = {one.replica for one in before.decision.placement.assignments}
    left = placed - {one.replica for one in (*found.fits_no_more, *found.dropped)}
    assert left | {one.replica for one in found.gained} == {one.replica for one in then.decision.placement.assignments}
    assert sum(one.placed_after for one in found.services) == len(then.decision.placement.assignments)
    if not wanted.uncordoned:
        assert {one.before for one in found.moves if one.runs} <= {(name,)}
