# SPDX-License-Identifier: Apache-2.0
"""What must hold of fleets of several nodes while plans are carried out: an earlier catalog, the one of now, a node
that goes and comes back. Each property has a seeded defect that makes it fail, tried by the last test.

The cases are the same in every run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from llmgw.decide import Decision, decide
from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Assignment
from llmgw.model.plan import ActionKind
from llmgw.nodekit import contract
from llmgw.placement import failures, groups, instances, rearrange, select
from llmgw.placement.assign import place
from llmgw.placement.board import Board
from llmgw.placement.pools import confirmed_ports
from llmgw.plan import diff, order
from tests.properties.placement_scenes import Act, Scene, seeded_scene
from tests.support.joined_machines import Machine, fleet_of
from tests.support.placement_state import state
from tests.support.world import World

SEEDS = (*range(100), 244, 955)
"""The first ones, and some that found more than those."""
Look = Callable[[contract.NodeFacts], contract.NodeFacts]


@dataclass(frozen=True)
class Applied:
    """One act, carried out: the fleet before it, and the world after it."""

    act: Act
    before: FleetSnapshot
    decision: Decision
    world: World


def carried_out(scene: Scene, watch: Callable[[World], None] | None = None) -> Iterator[Applied]:
    """The acts of a scene one after another, each on what the one before left."""
    world = World(fleet_of(*scene.machines), watch)
    for act in scene.acts:
        world = _as_now(world, act.machines, watch)
        before = world.fleet
        yield Applied(act, before, world.apply(act.catalog), world)


def _as_now(world: World, machines: tuple[Machine, ...], watch: Callable[[World], None] | None) -> World:
    """A world with its machines as they are now, and on them what ran before."""
    there = World(seen(world, machines), watch)
    there.routes = world.routes
    return there


def seen(world: World, machines: Iterable[Machine], look: Look | None = None) -> FleetSnapshot:
    """Machines with what runs on them in a world, as they are judged by facts that are changed by `look`."""
    there = fleet_of(*(replace(one, units=world.units(one.name)) for one in machines), look=look)
    return replace(there, gateways=world.fleet.gateways)


def the_next_plan_of_the_same_catalog_is_empty(scene: Scene) -> None:
    for one in carried_out(scene):
        again = decide(one.act.catalog, one.world.fleet)
        assert again.plan.waves == (), again.plan.actions


def no_device_and_no_port_has_two_holders_at_any_step(scene: Scene) -> None:
    def watch(world: World) -> None:
        for node in world.fleet.nodes:
            units = world.units(node.name)
            held = Counter(device for one in units for device in one.devices)
            ports = Counter(one.port for one in units)
            ports.update(one.port + 1 for one in units if one.port and (one.members or 1) > 1 and not one.rank)
            assert set((held + ports).values()) <= {1}, f"{node.name}: {held} {ports}"

    for _one in carried_out(scene, watch):
        pass


def members_are_joined_by_one_ready_domain_or_one_confirmed_fabric(scene: Scene) -> None:
    for done in carried_out(scene):
        for one in done.decision.placement.assignments:
            if len(one.members) > 1 and not one.kept:
                _are_joined(one, done.before)


def _are_joined(one: Assignment, fleet: FleetSnapshot) -> None:
    nodes = {str(node.name): node for node in fleet.nodes}
    assert [member.rank for member in one.members] == list(range(one.profile.nodes))
    assert len({member.node for member in one.members}) == len(one.members)
    assert {len(member.devices) for member in one.members} == {one.profile.gpus}
    ((domain, fabric),) = {(member.domain, member.fabric) for member in one.members}
    assert domain or fabric
    classes = set()
    for member in one.members:
        node = nodes[member.node]
        if domain is not None:
            assert node.domain is not None
            assert (node.domain.domain, node.domain.ready) == (domain, True)
        ports = set() if fabric is None else {port.name for port in confirmed_ports(node, fabric)}
        assert set(member.hcas) == ports
        assert ports or fabric is None
        classes |= {device.device_class for device in node.devices or () if device.uuid in member.devices}
    assert len(classes) == 1


def what_decides_only_who_may_come_restarts_nobody(scene: Scene) -> None:
    """Facts about links, memory, disks, weights and engines change: what runs keeps its processes (P1b)."""
    done = list(carried_out(scene))[1]
    then = decide(done.act.catalog, done.world.fleet)
    kept = {one.replica for one in then.placement.assignments if one.kept and not one.partial}
    for look in ADMISSION_ONLY:
        now = decide(done.act.catalog, seen(done.world, scene.machines, look))
        stay = kept - {replica for one in now.placement.assignments for replica in one.preempts}
        assert [one for one in now.plan.actions if one.replica in stay and one.kind not in _RUNS_ON] == []
        assert _processes(then, stay) == _processes(now, stay)


_RUNS_ON = (ActionKind.KEEP, ActionKind.REWRITE)


def _processes(decision: Decision, replicas: Iterable[str]) -> dict[str, str]:
    """The digest of the process of every unit of these replicas."""
    begin = tuple(f"llmgw-{replica.replace('/', '.')}." for replica in replicas)
    return {f"{one.node} {one.name}": one.process_digest for one in decision.units if one.name.startswith(begin)}


ADMISSION_ONLY: tuple[Look, ...] = (
    lambda facts: replace(
        facts, rdma_ports=tuple(replace(one, active=False, state="DOWN") for one in facts.rdma_ports or ())
    ),
    lambda facts: replace(facts, imex=facts.imex and replace(facts.imex, active=False, domain_state="DOWN", nodes=())),
    lambda facts: replace(facts, memory=None, filesystems=None, weights=None),
    lambda facts: replace(facts, engines=tuple(replace(one, version=None) for one in facts.engines or ())),
    lambda facts: replace(facts, engines=tuple(replace(one, runnable=False) for one in facts.engines or ())),
)


def questions_leave_the_board_as_it_was(scene: Scene) -> None:
    *_earlier, last = carried_out(scene)
    outcome = place(last.act.catalog, last.world.fleet, reasons=False)
    board = outcome.board
    for one in board.catalog.services:
        board.tally(one)
        for way in one.profiles:
            board.ask(one, way)
    before = state(board)
    for one in board.catalog.services:
        for ask in (rearrange.moving, rearrange.preempting, rearrange.without_moves):
            ask(board, one, f"{one.name}/999")  # type: ignore[arg-type]
            assert state(board) == before, ask.__name__
    failures.failures(outcome, ["pool"])
    assert state(board) == before


def what_is_refused_has_a_reason_and_what_has_none_is_placed(scene: Scene) -> None:
    """The quick search and the sentences for people agree on every node."""
    *_earlier, last = carried_out(scene)
    board = place(last.act.catalog, last.world.fleet, reasons=False).board
    for one in board.catalog.services:
        for way in one.profiles:
            found = board.find(one, way, f"{one.name}/999")  # type: ignore[arg-type]
            refused = {name: bool(board.rejections(one, way, at.node)) for name, at in board.ledgers.items()}
            if found is None:
                assert all(refused.values()), way.name
            else:
                assert not any(refused[member.node] for member in found.members), way.name


PROPERTIES = [
    the_next_plan_of_the_same_catalog_is_empty,
    no_device_and_no_port_has_two_holders_at_any_step,
    members_are_joined_by_one_ready_domain_or_one_confirmed_fabric,
    what_decides_only_who_may_come_restarts_nobody,
    questions_leave_the_board_as_it_was,
    what_is_refused_has_a_reason_and_what_has_none_is_placed,
]


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_every_scene(holds: Callable[[Scene], None]) -> None:
    for seed in SEEDS:
        try:
            holds(seeded_scene(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def _always_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diff, "_kind", lambda *_unit: ActionKind.UPDATE)


def _nobody_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(order, "devices_held", lambda _change: frozenset())


def _any_port_will_do(patch: pytest.MonkeyPatch) -> None:
    def joined(*_known: Any) -> tuple[str, ...]:
        return ("mlx5_0:1",)

    patch.setattr(groups, "_hcas", joined)


def _lost_links_evict(patch: pytest.MonkeyPatch) -> None:
    def evict(instance: instances.Instance, *, hidden: bool) -> str | None:
        down = any(not port.active for port in (instance.node.facts and instance.node.facts.rdma_ports) or ())
        return "a link is down" if down else instances.eviction(instance, hidden=hidden)

    patch.setattr(select, "eviction", evict)


def _keep_what_was_tried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rearrange._Search, "_undo", lambda _self, _length: None)


def _forget_the_partners(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Board, "rejections", lambda self, *asked: () if asked[1].nodes > 1 else _alone(self, *asked))


_alone = Board.rejections

DEFECTS: dict[Callable[[Scene], None], Callable[[pytest.MonkeyPatch], None]] = dict(
    zip(
        PROPERTIES,
        [
            _always_restart,
            _nobody_waits,
            _any_port_will_do,
            _lost_links_evict,
            _keep_what_was_tried,
            _forget_the_partners,
        ],
        strict=True,
    )
)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_every_property_fails_on_its_seeded_defect(
    holds: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    DEFECTS[holds](monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        _all(holds)


def _all(holds: Callable[[Scene], None]) -> None:
    for seed in SEEDS:
        holds(seeded_scene(seed))
