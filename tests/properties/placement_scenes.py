# SPDX-License-Identifier: Apache-2.0
"""Scenes: bare machines, an earlier catalog, the one of now, something that happens to a node, and its recovery."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmgw.model.replica import Catalog
from tests.properties.placement_cases import Draw, Seeded, earlier_of, machines_of, services_of
from tests.support.fleets import catalog
from tests.support.joined_machines import Machine

_EVENTS = ("lost", "drained", "cordoned", "silent", "sick", "sick")


@dataclass(frozen=True)
class Act:
    """One apply: the machines as they are by then, and the catalog."""

    machines: tuple[Machine, ...]
    catalog: Catalog


@dataclass(frozen=True)
class Scene:
    """What is applied one after another, on machines that ran nothing before."""

    machines: tuple[Machine, ...]
    acts: tuple[Act, ...]


def seeded_scene(seed: int, most: int = 6) -> Scene:
    """The scene of a seed, of at most so many nodes."""
    draw = Seeded(seed)
    machines = tuple(machines_of(draw, most))
    services = services_of(draw, machines)
    earlier, now = catalog(*earlier_of(draw, services)), catalog(*services)
    victim = draw.number(0, len(machines) - 1)
    after = tuple(_struck(draw, one) if at == victim else one for at, one in enumerate(machines))
    other = catalog(*(replace(one, replicas=max(0, one.replicas + draw.number(-1, 1))) for one in services))
    return Scene(
        machines,
        (Act(machines, earlier), Act(machines, now), Act(after, now), Act(machines, now), Act(machines, other)),
    )


def _struck(draw: Draw, one: Machine) -> Machine:
    event = draw.choice(_EVENTS)
    if event == "silent":
        return replace(one, silent=True)
    if event != "sick":
        return replace(one, variables={**one.variables, f"llmgw_{event}": True})
    return replace(one, sick=(*one.sick, draw.number(0, len(one.cards) - 1))) if one.cards else one
