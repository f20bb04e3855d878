# SPDX-License-Identifier: Apache-2.0
"""Stories as they happen in a world in memory: applies that end early, hosts that go and return, units that somebody
else touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeGuard

from llmgw.decide import Decision, Options, decide
from llmgw.model.ids import ServiceName
from llmgw.model.node import FleetSnapshot, GatewayHost, Node, NodeState
from llmgw.model.plan import MarkDevices, Publish, StartMembers, Step, StopMembers
from llmgw.model.replica import Catalog
from llmgw.model.unit import UnitFile
from llmgw.nodekit import contract, unitchange
from llmgw.routes.now import routes_now
from tests.properties.stories import CATALOG_EVENTS, Chapter, Event, Story, edited
from tests.support.fleets import with_facts
from tests.support.world import World

Watch = Callable[["Fate"], None]


class Cut(Exception):  # noqa: N818 - not an error: the controller was killed
    """The apply ends here."""


class Fate(World):
    """A world with a catalog, whose applies carry out only as many of their smallest steps (one unit, one mark, one
    publication) as `budget` says; None: all. `steps` counts those of the last apply, `touched` are its nodes,
    `last` is what was done last, and `ended` is what ran until that, as endpoints.
    """

    def __init__(self, fleet: FleetSnapshot, catalog: Catalog, watch: Watch | None = None) -> None:
        super().__init__(fleet)
        self.catalog = catalog
        self.budget: int | None = None
        self.steps = 0
        self.touched: set[str] = set()
        self.last: Step | None = None
        self.ended: set[str] = set()
        self._look = watch

    def carry_out(self, chapter: Chapter) -> None:
        """Everything of a chapter; an apply that is cut off is left as it is."""
        for event in chapter.events:
            self.befall(event)
        self.budget = chapter.cut
        try:
            self.whole_apply(options_of(chapter, self.fleet))
        except Cut:
            pass
        finally:
            self.budget = None

    def whole_apply(self, options: Options | None = None) -> Decision:
        """An apply of the catalog of now."""
        self.steps, self.touched = 0, set()
        return self.apply(self.catalog, options)

    def failing_apply(self, bad: str) -> frozenset[str]:
        """An apply in which no process starts whose unit has these words, and no canary does well if they are
        `canary`: the step's own units are put back, then what its wave says of the services that failed, and routes
        name what serves then. Returns those services; empty when nothing failed.
        """
        decision = decide(self.catalog, self.fleet)
        for wave in decision.plan.waves:
            for step in wave.steps:
                failed = frozenset(_failing(step, bad, self))
                kept = tuple(unit for unit in step.units if not _fails(unit, bad, self)) if _starts(step) else ()
                self._carry_out(StartMembers(kept) if _starts(step) else step, decision.plan.generation)
                if failed:
                    undo = [one for service in sorted(failed) for one in wave.undo.get(ServiceName(service), ())]
                    fenced = decide(self.catalog, self.fleet).fenced
                    self.take_steps(undo, decision.plan.generation)
                    settled = Publish(routes_now(self.catalog, self.fleet, fenced))
                    self._carry_out(settled, decision.plan.generation)
                    return failed
        return frozenset()

    def _carry_out(self, step: Step, generation: int) -> None:
        for atom in _atoms(step):
            if self.budget is not None and self.steps >= self.budget:
                raise Cut
            self.steps += 1
            self.ended = set(self._about_to_end(atom))
            super()._carry_out(atom, generation)
            self.touched |= _nodes_of(atom)
            self.last = atom
            if self._look:
                self._look(self)

    def _about_to_end(self, step: Step) -> Iterator[str]:
        for node, name in step.units if isinstance(step, StopMembers) else ():
            for unit in self.units(node):
                if unit.name == name and unitchange.is_running(unit):
                    yield f"{unit.replica}@{node}"

    def _publish(self, step: Publish, generation: int) -> None:
        before = self.fleet.gateways
        super()._publish(step, generation)
        reached = {one.name: one for one in self.fleet.gateways}
        kept = tuple(reached[one.name] if one.state is NodeState.OK else one for one in before)
        self.fleet = replace(self.fleet, gateways=kept)

    def befall(self, event: Event) -> None:
        """One event happens, to whatever it hits as things are now."""
        if event.kind in CATALOG_EVENTS:
            self.catalog = edited(self.catalog, event)
        elif event.kind.startswith("gateway_"):
            self.fleet = replace(self.fleet, gateways=tuple(_GATEWAYS[event.kind](one) for one in self.fleet.gateways))
        elif event.kind in _HOSTS:
            nodes = list(self.fleet.nodes)
            number = event.target % len(nodes)
            nodes[number] = _HOSTS[event.kind](nodes[number], event.value)
            self.fleet = replace(self.fleet, nodes=tuple(nodes))
        else:
            self._befall_a_unit(event)

    def _befall_a_unit(self, event: Event) -> None:
        there = [(node.name, unit) for node in self.fleet.nodes for unit in self.units(node.name)]
        if not there:
            return
        node, unit = there[event.target % len(there)]
        others = tuple(one for one in self.units(node) if one.name != unit.name)
        if event.kind == "double":
            target = self.fleet.nodes[event.value % len(self.fleet.nodes)].name
            if not unit.devices and all(one.name != unit.name for one in self.units(target)):
                ports = {one.port for one in self.units(target)}
                free = next(port for port in range(18500, 18999) if port not in ports)
                self._set(target, (*self.units(target), replace(unit, port=free)))
            return
        left = _UNITS[event.kind](unit)
        self._set(node, others if left is None else (*others, left))

    def everything_answers_again(self) -> None:
        """Every host and gateway is reached, in order and in use."""
        nodes = tuple(
            _mend_card(replace(one, state=NodeState.OK, cordoned=False, drained=False), 0) for one in self.fleet.nodes
        )
        gateways = tuple(replace(one, state=NodeState.OK) for one in self.fleet.gateways)
        self.fleet = replace(self.fleet, nodes=nodes, gateways=gateways)


def told(story: Story, watch: Watch | None = None) -> Fate:
    """The world before the first apply of a story."""
    return Fate(story.fleet, story.catalog, watch)


def options_of(chapter: Chapter, fleet: FleetSnapshot) -> Options:
    """What the operator says with the apply of a chapter."""
    limit = None
    if chapter.spared is not None:
        names = [*(str(one.name) for one in fleet.nodes), *(str(one.name) for one in fleet.gateways)]
        limit = frozenset(names) - {names[chapter.spared % len(names)]}
    return Options(limit=limit, allow_mass_loss=chapter.mass_loss)


def _starts(step: Step) -> TypeGuard[StartMembers]:
    return isinstance(step, StartMembers)


def _fails(unit: UnitFile, bad: str, world: World) -> bool:
    before = next((one for one in world.units(unit.node) if one.name == unit.name), None)
    change = unitchange.change(before, unit.process_digest, unit.text_digest)
    return bad in unit.text and change not in (unitchange.KEPT, unitchange.REWRITTEN)


def _failing(step: Step, bad: str, world: World) -> Iterator[str]:
    """The services that fail in a step."""
    if isinstance(step, StartMembers):
        yield from (unit.replica.partition("/")[0] for unit in step.units if _fails(unit, bad, world))
    if isinstance(step, Publish) and bad == "canary":
        yield from (one.partition("/")[0] for trial in step.trials for one in trial.endpoints)


def _atoms(step: Step) -> list[Step]:
    if isinstance(step, StartMembers):
        return [StartMembers((unit,)) for unit in step.units]
    if isinstance(step, StopMembers):
        return [StopMembers((unit,)) for unit in step.units]
    if isinstance(step, MarkDevices):
        return [MarkDevices((mark,)) for mark in step.devices]
    return [step]


def _nodes_of(step: Step) -> set[str]:
    if isinstance(step, StartMembers):
        return {unit.node for unit in step.units}
    if isinstance(step, StopMembers):
        return {node for node, _name in step.units}
    return {mark.node for mark in step.devices} if isinstance(step, MarkDevices) else set()


def _break_card(node: Node, value: int) -> Node:
    if not node.devices or node.facts is None:
        return node
    card = node.devices[value % len(node.devices)]
    finding = contract.Finding("ecc", "block", "it is broken", subject=card.uuid)
    return with_facts(node, replace(node.facts, findings=(finding,)))


def _mend_card(node: Node, value: int) -> Node:
    del value
    return with_facts(node, replace(node.facts, findings=(), quarantined=())) if node.facts else node


_HOSTS: dict[str, Callable[[Node, int], Node]] = {
    "lose": lambda node, _value: replace(node, state=NodeState.LOST),
    "cut_off": lambda node, _value: replace(node, state=NodeState.UNREACHABLE),
    "answer": lambda node, _value: replace(node, state=NodeState.OK),
    "cordon": lambda node, _value: replace(node, cordoned=True),
    "uncordon": lambda node, _value: replace(node, cordoned=False),
    "drain": lambda node, _value: replace(node, drained=True),
    "undrain": lambda node, _value: replace(node, drained=False),
    "break_card": _break_card,
    "mend_card": _mend_card,
}
_UNITS: dict[str, Callable[[contract.ObservedUnit], contract.ObservedUnit | None]] = {
    "stop": lambda unit: replace(unit, active_state="inactive", sub_state="dead", running_digest=None, main_pid=None),
    "edit": lambda unit: replace(unit, edited=True, actual_text_digest="sha256:by hand", needs_reload=True),
    "remove": lambda _unit: None,
    "outdate": lambda unit: replace(unit, running_digest="sha256:older"),
}
_GATEWAYS: dict[str, Callable[[GatewayHost], GatewayHost]] = {
    "gateway_forgets": lambda one: replace(one, bundle=None),
    "gateway_away": lambda one: replace(one, state=NodeState.UNREACHABLE),
    "gateway_back": lambda one: replace(one, state=NodeState.OK),
}
