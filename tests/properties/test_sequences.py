# SPDX-License-Identifier: Apache-2.0
"""What must hold of whole stories: whatever was edited, lost, touched by hand or cut off before, the next apply
converges, and on the way to it nothing is orphaned, doubled or taken away. Each property has a seeded defect that makes
it fail, tried by the last test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import llmgw.decide as core
from llmgw.decide import decide
from llmgw.model.node import NodeState
from llmgw.model.plan import ActionKind, Publish
from llmgw.nodekit import unitchange
from llmgw.plan import order, rollouts
from tests.properties.stories import NAMES, Event, Story, stories
from tests.properties.told import Fate, options_of, told

Unit = tuple[str, str, tuple[str, ...], bool]
"""Replica, node, devices, whether it runs."""
pytestmark = pytest.mark.timeout(300)


def the_next_apply_converges_and_a_second_is_empty(story: Story) -> None:
    world = told(story)
    for chapter in story.chapters:
        world.carry_out(chapter)
        options = options_of(chapter, world.fleet)
        world.whole_apply(options)
        again = decide(world.catalog, world.fleet, options)
        left = [one for one in again.plan.actions if one.kind is not ActionKind.KEEP]
        assert again.plan.waves == (), left
        # What cannot be reached cannot be stopped, and what is refused waits.
        refused = any(one.refused for one in again.plan.rollouts)
        assert refused or {one.kind for one in left} <= {ActionKind.STOP}, left


def once_all_hosts_answer_exactly_what_is_placed_runs_and_is_routed_to(story: Story) -> None:
    """What must leave and has no other place goes on where it is, and so does what a refused rollout would replace;
    nothing else is left over.
    """
    world = told(story)
    for chapter in story.chapters:
        world.carry_out(chapter)
    world.everything_answers_again()
    decision = world.whole_apply()
    placed = decision.placement
    homeless = {one.replica: one.service for one in placed.unplaced}
    refused = tuple(f"{one.service}/" for one in decision.plan.rollouts if one.refused)
    there = [
        (unit.replica or "", str(node.name), unit.devices, unitchange.is_running(unit))
        for node in world.fleet.nodes
        for unit in world.units(node.name)
    ]
    wanted = [(one.replica, str(at.node), at.devices, True) for one in placed.assignments for at in one.members]
    assert _apart_from(there, homeless, refused) == _apart_from(wanted, homeless, refused)
    assert len({one[0] for one in there}) == len(there)
    routed = sorted(endpoint for name in NAMES for endpoint in world.routed(name))
    assert routed == sorted(f"{replica}@{node}" for replica, node, _devices, running in there if running)
    missing = Counter(homeless.values())
    for service in world.catalog.services:
        here = sum(one.service.name == service.name for one in placed.assignments)
        assert here + missing[service.name] == service.replicas


def _apart_from(units: Sequence[Unit], homeless: Collection[str], refused: tuple[str, ...]) -> list[Unit]:
    return sorted(one for one in units if one[0] not in homeless and not one[0].startswith(refused))


def at_every_step_devices_and_ports_have_one_holder(story: Story) -> None:
    def watch(world: Fate) -> None:
        for node in world.fleet.nodes:
            if node.state is NodeState.OK:
                devices = Counter(uuid for unit in world.units(node.name) for uuid in unit.devices)
                ports = Counter(unit.port for unit in world.units(node.name))
                assert set((devices + ports).values()) <= {1}, f"{node.name}: {devices} {ports}"

    _tell(story, watch)


def hosts_that_do_not_answer_are_not_touched(story: Story) -> None:
    def watch(world: Fate) -> None:
        away = {str(node.name) for node in world.fleet.nodes if node.state is not NodeState.OK}
        assert not away & world.touched

    _tell(story, watch)


def routes_name_only_what_runs(story: Story) -> None:
    """Whenever some are published; and what runs was taken out of them before it is stopped on purpose."""

    def watch(world: Fate) -> None:
        running = {one for name in NAMES for one in world.running(name)}
        routed = {one for name in NAMES for one in world.routed(name)}
        if isinstance(world.last, Publish):
            assert routed <= running
        assert not world.ended & routed

    _tell(story, watch)


def an_apply_takes_away_no_more_than_max_unavailable(story: Story) -> None:
    """Of what serves when it begins and is wanted still, but for what gives way to others or gets no place."""
    world = told(story)
    world.whole_apply()
    for chapter in story.chapters:
        for event in chapter.events:
            world.befall(event)
        _available_throughout(world)


def _available_throughout(world: Fate) -> None:
    wanted = decide(world.catalog, world.fleet)
    lacking = Counter(str(one.service) for one in wanted.placement.unplaced)
    lacking.update(replica.rpartition("/")[0] for one in wanted.placement.assignments for replica in one.preempts)
    serving = {name: len(_available(world, name)) for name in NAMES}
    floors = {
        str(one.name): min(serving[one.name], one.replicas - lacking[one.name]) - one.rollout.max_unavailable
        for one in world.catalog.services
    }

    world._look = _at_least(floors)
    world.whole_apply()
    world._look = None


def a_rollout_that_fails_leaves_the_service_as_it_was(story: Story) -> None:
    """New arguments with which nothing starts, or canaries that do badly: as many serve as before, with what they had
    before; a catalog that is mended converges.
    """
    world = told(story)
    for chapter in story.chapters:
        for event in chapter.events:
            world.befall(event)
    world.whole_apply()
    for number, bad in enumerate(("--n 90", "canary")):
        good, serving, running = world.catalog, {name: len(_available(world, name)) for name in NAMES}, _running(world)
        for target in range(len(good.services)):
            world.befall(Event("args", target, 90 + number))
        least = {str(one.name): serving[one.name] - one.rollout.max_unavailable for one in good.services}
        world._look = _at_least(least)
        failed = world.failing_apply(bad)
        world._look = None
        for name in failed:
            assert len(_available(world, name)) >= serving[name], name
            assert {one for one in _running(world) if one[0].startswith(f"{name}/")} <= running
        world.catalog = good
        world.whole_apply()
        assert decide(world.catalog, world.fleet).plan.waves == ()


def _running(world: Fate) -> set[tuple[str, str, str | None]]:
    """Replica, node and digest of every process."""
    return {
        (unit.replica or "", str(node.name), unit.running_digest)
        for node in world.fleet.nodes
        for unit in world.units(node.name)
        if unitchange.is_running(unit)
    }


def _at_least(floors: Mapping[str, int]) -> Callable[[Fate], None]:
    def watch(now: Fate) -> None:
        for name, floor in floors.items():
            here = _available(now, name)
            assert len(here) >= floor, f"{name}: {sorted(here)} serve, {floor} must"

    return watch


def _available(world: Fate, service: str) -> set[str]:
    """What gets new requests of a service and answers them."""
    lost = tuple(f"@{node.name}" for node in world.fleet.nodes if node.state is NodeState.LOST)
    return {one for one in {*world.routed(service)} & {*world.running(service)} if not one.endswith(lost)}


def _tell(story: Story, watch: Callable[[Fate], None]) -> None:
    world = told(story, watch)
    for chapter in story.chapters:
        world.carry_out(chapter)
    world.everything_answers_again()
    world.whole_apply()


PROPERTIES = [
    the_next_apply_converges_and_a_second_is_empty,
    once_all_hosts_answer_exactly_what_is_placed_runs_and_is_routed_to,
    at_every_step_devices_and_ports_have_one_holder,
    hosts_that_do_not_answer_are_not_touched,
    routes_name_only_what_runs,
    an_apply_takes_away_no_more_than_max_unavailable,
    a_rollout_that_fails_leaves_the_service_as_it_was,
]


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
@given(story=stories())
def test_every_story(holds: Callable[[Story], None], story: Story) -> None:
    holds(story)


def _edits_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(order.Order, "rewrite", lambda _self, _changes: None)


def _stand_ins_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(order.Order, "_stop_stand_ins", lambda _self, _changes: None)


def _nobody_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(order, "devices_held", lambda _change: frozenset())
    patch.setattr(rollouts, "devices_held", lambda _change: frozenset())


def _everything_is_reached(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(core, "_untouched", lambda _fleet: iter(()))


def _stop_before_publishing(patch: pytest.MonkeyPatch) -> None:
    original = order.Order.stop

    def stop(self: order.Order, changes: Any) -> None:
        original(self, changes)
        self.waves[:] = [replace(wave, steps=wave.steps[::-1]) for wave in self.waves]

    patch.setattr(order.Order, "stop", stop)


def _all_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rollouts, "_at_once", lambda replaced, _may_go: replaced)


def _nothing_is_put_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(order.Order, "_undo", lambda _self, _changes: {})


DEFECTS: dict[Callable[[Story], None], tuple[Callable[[pytest.MonkeyPatch], None], tuple[str, ...]]] = dict(
    zip(
        PROPERTIES,
        [
            (_edits_stay, ("edit",)),
            (_stand_ins_stay, ("args",)),
            (_nobody_waits, ("break_card", "gpus", "class")),
            (_everything_is_reached, ("cut_off", "args")),
            (_stop_before_publishing, ("scale",)),
            (_all_at_once, ("args",)),
            (_nothing_is_put_back, ("rollout",)),
        ],
        strict=True,
    )
)
"""A defect for each property, and the events of stories in which it is soon seen."""


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_every_property_fails_on_its_seeded_defect(
    holds: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect, kinds = DEFECTS[holds]
    defect(monkeypatch)

    @settings(max_examples=600, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(story=stories(kinds))
    def defective(story: Story) -> None:
        holds(story)

    with pytest.raises(AssertionError):
        defective()
