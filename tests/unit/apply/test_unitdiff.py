# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from llmgw.apply.unitdiff import UnitDiff, unit_diffs
from llmgw.decide import decide
from llmgw.model.replica import Catalog, RolloutSpec
from llmgw.nodekit import contract
from tests.support.fleets import catalog, fleet, node, profile, service
from tests.support.world import World

UNIT = "llmgw-chat.0.0.service"


def world(replicas: int = 1) -> World:
    made = World(fleet(node("n1"), node("n2")))
    made.apply(catalog(service(replicas=replicas)))
    return made


def diffs(one: World, wanted: Catalog | None = None) -> tuple[UnitDiff, ...]:
    return unit_diffs(decide(wanted or catalog(service(replicas=1)), one.fleet), one.fleet)


def test_units_that_are_as_they_should_be_do_not_differ() -> None:
    assert diffs(world()) == ()


def test_a_new_unit_is_all_additions() -> None:
    (found,) = diffs(World(fleet(node("n1"))))
    assert (found.node, found.unit, found.change, found.drift) == ("n1", UNIT, "created", ())
    assert found.diff[0] == f"--- {UNIT} on the node"
    assert found.diff[1] == f"+++ {UNIT} by the catalog"
    assert all(line.startswith("+") for line in found.diff[3:])


def test_a_removed_unit_is_all_deletions() -> None:
    (found,) = diffs(world(), catalog())
    assert (found.change, found.drift) == ("removed", ())
    assert all(line.startswith("-") for line in found.diff[3:])


def test_a_changed_argument_is_one_line_and_the_digests() -> None:
    (found,) = diffs(world(), catalog(service(replicas=1, profiles=(profile(args=("--x",)),))))
    assert found.change == "restarted"
    added = [line.partition("=")[0] for line in found.diff[3:] if line.startswith("+")]
    assert added == ["+ExecStart", "+Environment", "+ProcessDigest", "+TextDigest"]


def test_units_are_sorted_by_node_and_name() -> None:
    found = diffs(World(fleet(node("n2"), node("n1"))), catalog(service(replicas=4)))
    assert [(one.node, one.unit[6:12]) for one in found] == [
        ("n1", "chat.0"),
        ("n1", "chat.2"),
        ("n2", "chat.1"),
        ("n2", "chat.3"),
    ]


DRIFTS: list[tuple[str, str, Callable[[contract.ObservedUnit], contract.ObservedUnit]]] = [
    ("edited", "rewritten", lambda one: replace(one, edited=True)),
    ("missing", "rewritten", lambda one: replace(one, actual_text_digest=None, text=None)),
    ("disabled", "rewritten", lambda one: replace(one, enabled=False)),
    ("stopped", "started", lambda one: replace(one, active_state="inactive", sub_state="dead")),
    ("stopped", "started", lambda one: replace(one, active_state="failed", result="oom-kill")),
    ("older", "restarted", lambda one: replace(one, running_digest="sha256:old")),
]


@pytest.mark.parametrize(("kind", "change", "edit"), DRIFTS)
def test_drift_is_told_apart_from_what_the_catalog_changes(
    kind: str, change: str, edit: Callable[[contract.ObservedUnit], contract.ObservedUnit]
) -> None:
    one = world()
    one.change(UNIT, edit)
    (found,) = diffs(one)
    assert (found.change, found.drift) == (change, (kind,))


def test_what_a_refused_rollout_holds_up_is_shown_as_such() -> None:
    wanted = service(
        replicas=1, profiles=(profile(args=("--x",)),), rollout=RolloutSpec(max_unavailable=0, max_surge=0)
    )
    (found,) = diffs(world(), catalog(wanted))
    assert (found.change, found.withheld) == ("restarted", True)
    assert any(line.startswith("+ExecStart=") for line in found.diff)


def test_stand_ins_come_and_go_and_are_no_difference() -> None:
    wanted = service(replicas=1, profiles=(profile(args=("--x",)),), rollout=RolloutSpec(max_surge=1))
    assert [(one.unit, one.withheld) for one in diffs(world(), catalog(wanted))] == [(UNIT, False)]


def test_a_unit_without_a_known_text_is_shown_whole() -> None:
    one = world()
    one.change(UNIT, lambda unit: replace(unit, text=None))
    (found,) = diffs(one, catalog(service(replicas=1, profiles=(profile(args=("--x",)),))))
    assert all(line.startswith("+") for line in found.diff[3:])


@pytest.mark.parametrize(
    ("edit", "drop_in"),
    [
        (lambda one: replace(one, edited=True), f"{UNIT}.d/"),
        (lambda one: replace(one, edited=True, actual_text_digest="sha256:other"), None),
        (lambda one: replace(one, enabled=False), None),
        (lambda one: replace(one, actual_text_digest=None, text_digest=None, text=None, edited=None), None),
    ],
)
def test_a_drop_in_is_named_where_the_text_itself_is_as_it_was_written(
    edit: Callable[[contract.ObservedUnit], contract.ObservedUnit], drop_in: str | None
) -> None:
    one = world()
    one.change(UNIT, edit)
    (found,) = diffs(one)
    assert found.drop_in == drop_in
