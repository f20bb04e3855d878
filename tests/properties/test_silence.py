# SPDX-License-Identifier: Apache-2.0
"""What must hold of an apply in which a host falls silent in the middle of a step: what was begun to be stopped or
replaced there gets no requests until more is known, and nothing else is kept from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from llmgw.apply import steps as written
from llmgw.apply import verdict
from llmgw.apply.publishing import Publishing
from llmgw.apply.steps import steps_of, undo_of
from llmgw.decide import Decision, decide
from llmgw.model.ids import EndpointId, ServiceName
from llmgw.model.node import NodeState
from llmgw.model.plan import Publish, StartMembers, Step, StopMembers
from llmgw.nodekit import unitchange
from llmgw.plan.order import Order
from llmgw.routes import withheld as kept
from llmgw.routes.now import routes_now
from llmgw.routes.withheld import Taken
from tests.properties.stories import NAMES, Event, Story, stories
from tests.properties.told import Fate, told

Json = dict[str, Any]
CUT: Json = {"unreachable": True, "msg": "no route"}
DONE: Json = {"changed": True, "units": []}
EVENTS = ("args", "scale", "drain", "class", "gpus", "cordon", "rollout")
pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Scene:
    """An apply, the steps that it has carried out when it fails, and the host that fell silent in the last of them."""

    decision: Decision
    publishing: Publishing
    done: Sequence[Step]
    failing: StartMembers | StopMembers
    silent: str


def what_was_begun_on_a_silent_host_gets_no_requests_and_all_else_does(story: Story, target: int, anew: bool) -> None:
    """`anew`: every service is started with other arguments, so that several are in one wave."""
    world = told(story)
    world.whole_apply()
    for chapter in story.chapters:
        for event in chapter.events:
            world.befall(event)
    for number in range(len(world.catalog.services)) if anew else ():
        world.befall(Event("args", number, 90))
    scene = _scene(world, target)
    if scene is None:
        return
    world.take_steps(scene.done, scene.decision.plan.generation)
    begun = set(_begun(world, scene)) - {one for name in NAMES for one in world.routed(name)}
    world.take_steps(_elsewhere(scene.failing, scene.silent), scene.decision.plan.generation)
    known = _judged(scene)
    assert known["failure"]
    world.state(scene.silent, NodeState.UNREACHABLE)
    for wave, service, step, told_step in _undo(scene):
        if (wave, service) in {(known["wave"], one) for one in known["failed_services"]}:
            world.take_steps(_elsewhere(step, scene.silent), scene.decision.plan.generation)
            known = verdict.put_back(known, told_step, _answers(told_step, scene.silent))
            assert not begun & _routed(world)
    fenced = decide(world.catalog, world.fleet).fenced
    answered = {str(one.name) for one in world.fleet.nodes if one.state is NodeState.OK}
    draining = kept.withheld(_taken(known), world.fleet, answered)
    world.take_steps([Publish(routes_now(world.catalog, world.fleet, fenced, draining))], 0)
    assert not begun & _routed(world)
    sound = {one for name in NAMES for one in world.running(name) if one.rpartition("@")[2] in answered}
    assert sound - fenced <= _routed(world) | _unasked(world)
    world.state(scene.silent, NodeState.OK)
    world.whole_apply()
    assert decide(world.catalog, world.fleet).plan.waves == ()


def _scene(world: Fate, target: int) -> Scene | None:
    """The apply that follows, failing at one of the steps that change units; None where it has none."""
    decision = decide(world.catalog, world.fleet)
    nodes, gateways = world.fleet.nodes, world.fleet.gateways
    names = frozenset([*(str(one.name) for one in nodes), *(str(one.name) for one in gateways)])
    every = [step for wave in decision.plan.waves for step in wave.steps]
    places = [(number, host) for number, step in enumerate(every) for host in sorted(_hosts(step))]
    if not places:
        return None
    number, silent = places[target % len(places)]
    failing = every[number]
    assert isinstance(failing, StartMembers | StopMembers)
    return Scene(decision, Publishing(decision, world.fleet, names), every[:number], failing, silent)


def _begun(world: Fate, scene: Scene) -> Iterator[EndpointId]:
    """The endpoints of what runs on the silent host and would run no more, or as another process, after the step."""
    if isinstance(scene.failing, StopMembers):
        ending = {name for node, name in scene.failing.units if node == scene.silent}
    else:
        there = {unit.name: unit for unit in world.units(scene.silent)}
        ending = {
            one.name
            for one in scene.failing.units
            if one.node == scene.silent
            and unitchange.change(there.get(one.name), one.process_digest, one.text_digest) == unitchange.RESTARTED
        }
    for unit in world.units(scene.silent):
        if unit.name in ending and unitchange.is_running(unit):
            yield EndpointId(f"{unit.replica}@{scene.silent}")


def _judged(scene: Scene) -> Json:
    known: Json = dict(verdict.BEGIN)
    told_steps = [one for one in steps_of(scene.decision, scene.publishing) if one["kind"] != "wait"]
    for step in told_steps[: len(scene.done)]:
        known = verdict.follow(known, _light(step), _answers(step, None))
        assert not known["failure"]
    failing = told_steps[len(scene.done)]
    return verdict.follow(known, _light(failing), _answers(failing, scene.silent))


def _undo(scene: Scene) -> Iterator[tuple[str, str, Step, Json]]:
    """By wave and service the steps that put back, each also as the playbook gets it."""
    written_down = [one for one in undo_of(scene.decision, scene.publishing) if one[2]["kind"] != "wait"]
    waves = enumerate(scene.decision.plan.waves, 1)
    meant = [step for _number, wave in waves for name in sorted(wave.undo) for step in wave.undo[ServiceName(name)]]
    for (wave, service, told_step), step in zip(written_down, meant, strict=True):
        yield wave, service, step, _light(told_step)


def _light(step: Json) -> Json:
    """The step as it is without its bulk (see llmgw.apply.spool), and with canaries that nobody counts."""
    if step["kind"] != "units":
        return {**step, "trials": []}
    hosts = {
        name: {"units": sorted([unit["name"] for unit in one["present"]] + one["absent"])}
        for name, one in step["hosts"].items()
    }
    return {**step, "hosts": hosts}


def _answers(step: Mapping[str, Any], silent: str | None) -> dict[str, Json]:
    return {host: CUT if host == silent else DONE for host in step["hosts"]}


def _taken(known: Json) -> list[Taken]:
    return [
        Taken(EndpointId(name), frozenset(one["hosts"]), frozenset(one["silent"]), one["process"])
        for name, one in known["taken"].items()
    ]


def _hosts(step: Step) -> set[str]:
    if isinstance(step, StartMembers):
        return {str(unit.node) for unit in step.units}
    return {str(node) for node, _name in step.units} if isinstance(step, StopMembers) else set()


def _elsewhere(step: Step, silent: str) -> list[Step]:
    """What of a step is not on that host."""
    if isinstance(step, StartMembers):
        return [StartMembers(tuple(unit for unit in step.units if unit.node != silent))]
    if isinstance(step, StopMembers):
        return [StopMembers(tuple(unit for unit in step.units if unit[0] != silent))]
    return [step]


def _routed(world: Fate) -> set[str]:
    return {one for name in NAMES for one in world.routed(name)}


def _unasked(world: Fate) -> set[str]:
    """What runs of services that the catalog no longer has."""
    asked = {str(one.name) for one in world.catalog.services}
    return {one for name in NAMES if name not in asked for one in world.running(name)}


@given(story=stories(EVENTS), target=st.integers(0, 30), anew=st.booleans())
def test_every_story(story: Story, target: int, anew: bool) -> None:
    what_was_begun_on_a_silent_host_gets_no_requests_and_all_else_does(story, target, anew)


def _silence_is_consent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kept, "_serves_on", lambda *_one: True)


def _nobody_knows_what_was_begun(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(written, "_takes", lambda _step, _drained: {"takes": {}})


def _whatever_was_touched_stays_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kept, "_serves_on", lambda *_one: False)


def _each_service_is_put_back_as_if_it_were_alone(patch: pytest.MonkeyPatch) -> None:
    original = Order._undo

    def undo(self: Order, changes: Any) -> Any:
        return {
            name: tuple(
                replace(step, routes=self._routes.table(frozenset(step.drain))) if isinstance(step, Publish) else step
                for step in steps
            )
            for name, steps in original(self, changes).items()
        }

    patch.setattr(Order, "_undo", undo)


DEFECTS = (
    _silence_is_consent,
    _nobody_knows_what_was_begun,
    _whatever_was_touched_stays_away,
    _each_service_is_put_back_as_if_it_were_alone,
)


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_property_fails_on_each_seeded_defect(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)

    @settings(max_examples=600, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(story=stories(("args", "scale"), whole=True), target=st.integers(0, 30), anew=st.booleans())
    def defective(story: Story, target: int, anew: bool) -> None:
        what_was_begun_on_a_silent_host_gets_no_requests_and_all_else_does(story, target, anew)

    with pytest.raises(AssertionError):
        defective()
