# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from llmgw.fleet.usage import Usage, by_class, holders, is_blind, usage_of
from llmgw.model.node import Node, NodeState
from llmgw.nodekit import contract
from tests.support.fleets import facts, node, with_facts

UNIT = contract.ObservedUnit("llmgw-chat.0.0.service", devices=("GPU-n1-0", "GPU-n1-1"))
BAD = contract.Finding("ecc-uncorrected", "block", "2 errors", subject="GPU-n1-2")
TAKEN = contract.Finding("foreign-memory", "block", "a stranger", subject="GPU-n1-3")


def four(**more: object) -> Node:
    known = replace(facts("n1", gpus=4), units=(UNIT,), findings=(BAD, TAKEN))
    return replace(with_facts(node("n1"), known), **more)  # type: ignore[arg-type]


def test_devices_are_held_or_free_or_out() -> None:
    assert usage_of(four()) == Usage(4, 2, 0, 2)
    assert usage_of(node("n1", gpus=3)) == Usage(3, 0, 3, 0)


def test_a_broken_device_that_is_still_held_counts_as_held() -> None:
    held = replace(UNIT, devices=("GPU-n1-2",))
    known = replace(facts("n1", gpus=4), units=(held,), findings=(BAD,))
    assert usage_of(with_facts(node("n1"), known)) == Usage(4, 1, 3, 0)


def test_what_is_free_on_a_node_that_takes_nothing_is_out() -> None:
    for one in (
        four(cordoned=True),
        four(drained=True),
        four(state=NodeState.UNREACHABLE),
        four(state=NodeState.LOST),
    ):
        assert usage_of(one) == Usage(4, 2, 0, 2)
    assert usage_of(node("n1", gpus=3, cordoned=True)) == Usage(3, 0, 0, 3)


def test_unknown_units_make_what_is_free_unknown_and_not_zero() -> None:
    blind = with_facts(node("n1"), replace(facts("n1", gpus=2), units=None))
    assert usage_of(blind) == Usage(2, maybe_held=2, maybe_free=2)
    assert [is_blind(one) for one in (blind, node("n2", gpus=1), replace(blind, devices=()))] == [True, False, False]


def test_a_node_whose_units_are_unknown_leaves_the_numbers_of_others_as_they_are() -> None:
    blind = with_facts(node("n1"), replace(facts("n1", gpus=2), units=None))
    both = by_class([blind, node("n2", gpus=1)])["h200-141g"]  # type: ignore[index]
    assert both == Usage(3, held=0, free=1, out=0, maybe_held=2, maybe_free=2)


def test_what_is_out_on_a_node_whose_units_are_unknown_is_not_free_and_may_be_held() -> None:
    blind = with_facts(node("n1"), replace(facts("n1", gpus=3), units=None, findings=(BAD,)))
    assert usage_of(blind) == Usage(3, out=1, maybe_held=3, maybe_free=2)


def test_a_device_is_held_by_its_replica_or_else_by_its_unit() -> None:
    of_replica = replace(UNIT, replica="chat/0", devices=("GPU-n1-2",))
    known = replace(facts("n1", gpus=3), units=(UNIT, of_replica))
    assert holders(known) == {"GPU-n1-0": UNIT.name, "GPU-n1-1": UNIT.name, "GPU-n1-2": "chat/0"}
    assert holders(replace(known, units=None)) == {}


def test_instances_count_as_their_class_and_unknown_devices_as_nothing() -> None:
    instance = contract.MigInstance("MIG-1", 3, device_class="a100-80g-mig-3g.40gb")
    card = contract.Gpu(1, "GPU-m", device_class="a100-80g", mig_mode=True, mig_instances=(instance,))
    split = with_facts(node("n2"), replace(facts("n2"), gpus=(card,)))
    unseen = replace(node("n3"), facts=None, devices=None)
    assert by_class([node("n1", gpus=1), split, unseen]) == {
        "a100-80g-mig-3g.40gb": Usage(1, 0, 1, 0),
        "h200-141g": Usage(1, 0, 1, 0),
    }
