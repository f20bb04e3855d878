# SPDX-License-Identifier: Apache-2.0
"""What must hold of all drift. Each property has a seeded defect that makes it fail, tried by the last test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from llmgw.decide import decide
from llmgw.model.plan import Drift
from llmgw.model.replica import Catalog
from llmgw.nodekit import contract
from llmgw.plan import drift
from tests.properties.cases import Case, cases
from tests.support.fleets import with_facts
from tests.support.world import World

Damage = Callable[[contract.ObservedUnit], contract.ObservedUnit]
DAMAGES: dict[str, Damage] = {
    "edited": lambda one: replace(one, edited=True, actual_text_digest="sha256:edited"),
    "missing": lambda one: replace(one, actual_text_digest=None, text=None, text_digest=None, edited=None),
    "stopped": lambda one: replace(one, active_state="failed", sub_state="failed", running_digest=None),
    "older": lambda one: replace(one, running_digest="sha256:older"),
    "reload": lambda one: replace(one, needs_reload=True),
    "disabled": lambda one: replace(one, enabled=False),
    "extra": lambda one: replace(one, replica=None),
}


@dataclass(frozen=True)
class Damaged:
    """A case, and what befalls the unit of each place in the order of nodes and units."""

    case: Case
    damages: tuple[str | None, ...]

    def world(self) -> tuple[World, dict[tuple[str, str], str]]:
        """The world after the first catalog and then the damages, and which unit has which."""
        world = World(self.case.fleet)
        world.apply(self.case.first)
        chosen = iter(self.damages)
        done: dict[tuple[str, str], str] = {}
        nodes = []
        for node in world.fleet.nodes:
            units = []
            for unit in world.units(node.name):
                damage = next(chosen, None)
                units.append(unit if damage is None else DAMAGES[damage](unit))
                if damage is not None:
                    done[node.name, unit.name] = damage
            assert node.facts is not None
            nodes.append(with_facts(node, replace(node.facts, units=tuple(units))))
        world.fleet = replace(world.fleet, nodes=tuple(nodes))
        return world, done


@st.composite
def damaged(draw: st.DrawFn) -> Damaged:
    return Damaged(draw(cases()), tuple(draw(st.lists(st.sampled_from([None, *DAMAGES]), max_size=6))))


def found(world: World, wanted: Catalog) -> tuple[Drift, ...]:
    return decide(wanted, world.fleet).plan.drift


def no_change_of_the_catalog_is_drift(one: Damaged) -> None:
    world = World(one.case.fleet)
    world.apply(one.case.first)
    assert found(world, one.case.second) == ()


def what_befell_a_unit_is_told_and_nothing_else(one: Damaged) -> None:
    world, done = one.world()
    told = {(each.node, each.subject, each.kind) for each in found(world, one.case.first)}
    for (node, unit), damage in done.items():
        # Another unit of that name may be written over one that names no replica any more.
        assert damage == "extra" or (node, unit, damage) in told
    assert {(node, unit) for node, unit, _ in told} <= set(done)


def exactly_what_is_called_mended_is_gone_after_an_apply(one: Damaged) -> None:
    world, _ = one.world()
    before = found(world, one.case.second)
    world.apply(one.case.second)
    after = {(each.node, each.subject, each.kind) for each in found(world, one.case.second)}
    for each in before:
        assert each.mended == ((each.node, each.subject, each.kind) not in after)


PROPERTIES = [
    no_change_of_the_catalog_is_drift,
    what_befell_a_unit_is_told_and_nothing_else,
    exactly_what_is_called_mended_is_gone_after_an_apply,
]


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
@given(one=damaged())
def test_all_drift(holds: Callable[[Damaged], None], one: Damaged) -> None:
    holds(one)


def _surplus_is_extra(patch: pytest.MonkeyPatch) -> None:
    def not_ours(node: Any, unit: Any, wanted: Any) -> Any:
        return [(drift.EXTRA, "nobody asks for it")] if (node.name, unit.name) in wanted.surplus else []

    patch.setattr(drift, "_not_ours", not_ours)


def _files_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(drift, "_of_file", lambda _unit: ())


def _everything_is_written(patch: pytest.MonkeyPatch) -> None:
    whole = drift._wanted

    def wanted(*given: Any) -> Any:
        return replace(whole(*given), removed=_All())

    patch.setattr(drift, "_wanted", wanted)


class _All(frozenset[tuple[str, str]]):
    """Has everything in it."""

    def __contains__(self, _one: object) -> bool:
        return True


DEFECTS: dict[Callable[[Damaged], None], Callable[[pytest.MonkeyPatch], None]] = dict(
    zip(PROPERTIES, [_surplus_is_extra, _files_are_not_looked_at, _everything_is_written], strict=True)
)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_every_property_fails_on_its_seeded_defect(
    holds: Callable[[Damaged], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    DEFECTS[holds](monkeypatch)

    @settings(max_examples=400, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(one=damaged())
    def defective(one: Damaged) -> None:
        holds(one)

    with pytest.raises(AssertionError):
        defective()
