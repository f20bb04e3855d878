# SPDX-License-Identifier: Apache-2.0
"""Random small fleets with everything that placement knows of, replicas that run on them, and a catalog for what comes.

One description of a case serves hypothesis, which shrinks what it finds, and a seeded generator, whose cases are the
same in every run. What runs was placed there for an earlier catalog; then things happened to the nodes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from hypothesis import strategies as st

from llmgw.model.ids import ModelName
from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Placement
from llmgw.model.replica import Catalog, ModelSpec, ProfileSpec, ServiceSpec
from llmgw.nodekit import contract
from llmgw.placement.assign import place
from tests.support.fleets import GB, catalog, profile, service
from tests.support.joined_machines import SLICE, Machine, fleet_of

T = TypeVar("T")
NODES = 12
DOMAINS = ("5f2c01aa-7d1e-4b77-9c55-0e61a2d4f003", "9b31e7d0-22aa-4f6b-8a10-77c0d5e1b204")
H100, H200, L40S, A100, GB200 = "h100-80g", "h200-141g", "l40s-45g", "a100-80g", "gb200-186g"
MODEL = ModelSpec(ModelName("m"), hf_id="org/m")
KINDS = ("eight", "four", "four", "pairs", "mixed", "mig", "tray", "tray", "cpu")
SHAPES = ("one", "one", "one", "two", "two", "four", "slice", "cpu", "nodes", "nodes")


@dataclass(frozen=True)
class Case:
    """A fleet on which replicas run, and the catalog that is planned now."""

    fleet: FleetSnapshot
    catalog: Catalog


class Draw(Protocol):
    """Where the choices come from."""

    def choice(self, options: Sequence[T]) -> T:
        """One of them."""

    def number(self, low: int, high: int) -> int:
        """A number between them, both included."""


class Seeded:
    """Choices of a random generator."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choice(self, options: Sequence[T]) -> T:
        """See `Draw`."""
        return self._random.choice(options)

    def number(self, low: int, high: int) -> int:
        """See `Draw`."""
        return self._random.randint(low, high)


class Drawn:
    """Choices of hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def choice(self, options: Sequence[T]) -> T:
        """See `Draw`."""
        return self._draw(st.sampled_from(list(options)))

    def number(self, low: int, high: int) -> int:
        """See `Draw`."""
        return self._draw(st.integers(low, high))


@st.composite
def placement_cases(draw: st.DrawFn, most: int = 5) -> Case:
    """Cases for hypothesis, of at most so many nodes."""
    return case_of(Drawn(draw), most)


def seeded_case(seed: int) -> Case:
    """The case of a seed, of at most twelve nodes."""
    return case_of(Seeded(seed), NODES)


def case_of(draw: Draw, most: int) -> Case:
    """A fleet, what runs on it since an earlier catalog, what happened to it, and the catalog of now."""
    machines = machines_of(draw, most)
    services = services_of(draw, machines)
    if draw.number(0, 4):
        earlier = earlier_of(draw, services)
        running = place(catalog(*earlier), fleet_of(*machines)).placement
        machines = [_happened(draw, replace(one, units=_units(running, one.name))) for one in machines]
    return Case(fleet_of(*machines), catalog(*services))


def machines_of(draw: Draw, most: int) -> list[Machine]:
    """Bare machines, of a few kinds."""
    count = draw.number(1, most)
    kinds = [draw.choice(KINDS) for _kind in range(draw.number(1, 3))]
    return [_machine(draw, number, draw.choice(kinds)) for number in range(count)]


def services_of(draw: Draw, machines: Sequence[Machine]) -> list[ServiceSpec]:
    """Services for machines, some of which ask for more than there is."""
    classes = sorted({card for one in machines for card in one.cards} - {SLICE}) or [H100]
    return [_service(draw, number, classes) for number in range(draw.number(1, 3 + len(machines) // 2))]


def earlier_of(draw: Draw, services: Sequence[ServiceSpec]) -> list[ServiceSpec]:
    """What an earlier catalog had of these services."""
    return [_earlier(draw, one) for one in services if draw.number(0, 3) > one.priority // 2]


def _machine(draw: Draw, number: int, kind: str) -> Machine:
    one = Machine(
        f"n{number:02d}",
        memory_gb=draw.choice((None, 16, 64, 64)),
        labels={"rack": draw.choice(("a", "b", "c")), "pool": draw.choice(("prod", "prod", "test"))},
    )
    fabric = draw.choice((None, "ib-a", "ib-a", "ib-a", "ib-b"))
    if kind == "eight":
        one = replace(one, cards=(draw.choice((H100, H200)),) * 8, sockets=(0,) * 4 + (1,) * 4, fabric=fabric)
        one = replace(one, islands=draw.choice(((tuple(range(8)),), None)))
    elif kind == "four":
        one = replace(one, cards=(draw.choice((H100, L40S)),) * 4, fabric=fabric)
    elif kind == "pairs":
        one = replace(one, cards=(A100,) * 4, sockets=(0, 0, 1, 1), islands=((0, 1), (2, 3)))
    elif kind == "mixed":
        one = replace(one, cards=(L40S, L40S, A100, A100), sockets=(0, 1, 0, 1), islands=((2, 3),), fabric=fabric)
    elif kind == "mig":
        one = replace(one, cards=(A100, SLICE, SLICE)[: draw.number(2, 3)], sockets=(0, 0, 1)[:3])
    elif kind == "tray":
        one = replace(one, cards=(GB200,) * 4, islands=((0, 1, 2, 3),), domain=draw.choice(DOMAINS), fabric=fabric)
        one = replace(one, ready=draw.number(0, 4) > 0, sockets=(0, 0, 1, 1))
    if one.sockets is not None:
        one = replace(one, sockets=one.sockets[: len(one.cards)])
    return _flaws(draw, one)


def _flaws(draw: Draw, one: Machine) -> Machine:
    """Some machines have a bad card, or one that somebody else uses, or are kept free."""
    cards = len(one.cards)
    if cards and not draw.number(0, 7):
        one = replace(one, sick=(draw.number(0, cards - 1),))
    if cards and not draw.number(0, 7):
        one = replace(one, held=(draw.number(0, cards - 1),))
    return replace(one, variables={"llmgw_cordoned": True}) if not draw.number(0, 15) else one


def _happened(draw: Draw, one: Machine) -> Machine:
    """What may have happened to a machine since the earlier catalog was carried out."""
    event = draw.choice(("",) * 14 + ("lost", "drained", "cordoned", "silent", "sick", "held"))
    if event in ("lost", "drained", "cordoned"):
        return replace(one, variables={**one.variables, f"llmgw_{event}": True})
    if event == "silent":
        return replace(one, silent=True)
    if event in ("sick", "held") and one.cards:
        card = (draw.number(0, len(one.cards) - 1),)
        return replace(one, sick=(*one.sick, *card)) if event == "sick" else replace(one, held=(*one.held, *card))
    return one


def _service(draw: Draw, number: int, classes: Sequence[str]) -> ServiceSpec:
    shape = draw.choice(SHAPES)
    profiles = [_profile(draw, shape, f"p{number}", classes)]
    if not draw.number(0, 3) and shape != "cpu":
        profiles.append(_profile(draw, draw.choice((shape, "one", "two")), f"p{number}-second", classes))
    several = any(one.nodes > 1 for one in profiles)
    priority = draw.number(0, 2)
    spread = draw.choice((None, None, None, "node", "rack"))
    return service(
        f"s{number}",
        draw.number(1, 2 if several else 9 - 2 * priority),
        tuple(profiles),
        priority=priority,
        spread="node" if spread and several else spread,
    )


def _profile(draw: Draw, shape: str, name: str, present: Sequence[str]) -> ProfileSpec:
    memory = draw.choice((None, None, 8, 24))
    selector = {"pool": "prod"} if not draw.number(0, 5) else {}
    chosen = [draw.choice(present)] if draw.number(0, 15) else [H200]
    classes = tuple(dict.fromkeys([*chosen, draw.choice(present)] if draw.number(0, 1) else chosen))
    if shape == "cpu":
        engine, classes, gpus, nodes, memory = "sim", (), 0, 1, memory or 4
    else:
        engine, nodes = "vllm", 2 if shape == "nodes" else 1
        classes = (SLICE,) if shape == "slice" else classes
        gpus = draw.choice((1, 2, 4)) if nodes > 1 else {"two": 2, "four": 4}.get(shape, 1)
    return profile(
        name,
        engine,
        classes,
        gpus,
        tensor_parallel=max(1, gpus),
        pipeline_parallel=nodes,
        nodes=nodes,
        min_memory_bytes=None if memory is None else memory * GB,
        node_selector=selector,
        model=MODEL,
    )


def _earlier(draw: Draw, one: ServiceSpec) -> ServiceSpec:
    """A service as an earlier catalog had it: with other replicas, and sometimes fewer ways to serve."""
    replicas = max(1, one.replicas + draw.number(-3, 2))
    return replace(one, replicas=replicas, profiles=one.profiles[-1:] if not draw.number(0, 3) else one.profiles)


def _units(placement: Placement, node: str) -> tuple[contract.ObservedUnit, ...]:
    """The units of the replicas on a node once they run."""
    return tuple(
        contract.ObservedUnit(
            f"llmgw-{one.replica.replace('/', '.')}.{member.rank}.service",
            one.replica,
            member.rank,
            len(one.members),
            one.profile.name,
            port=member.port,
            devices=member.devices,
            active_state="active",
            sub_state="running",
            generation=1,
        )
        for one in placement.assignments
        for member in one.members
        if member.node == node
    )
