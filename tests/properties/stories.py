# SPDX-License-Identifier: Apache-2.0
"""Random stories of a fleet: edits of its catalog, what befalls its hosts and units, and applies that are cut off.

Everything is drawn as small numbers, and what they mean is decided by what is there when the story comes to them: so a
story stays one when a part of it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from llmgw.model.ids import DeviceClass, ServiceName
from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import CanarySpec, Catalog, RolloutSpec, ServiceSpec
from tests.properties.cases import CLASSES, catalogs, nodes
from tests.support.fleets import GB, profile, service

NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens between two applies, to the service, host or unit that `target` counts to."""

    kind: str
    target: int = 0
    value: int = 0

    def __repr__(self) -> str:
        return f"{self.kind}({self.target}, {self.value})"


@dataclass(frozen=True, slots=True)
class Chapter:
    """Events, then an apply. `cut`: how many of its smallest steps are carried out; None: all. `spared`: the host that
    a limit leaves out of it, counted from 0.
    """

    events: tuple[Event, ...]
    cut: int | None = None
    spared: int | None = None
    mass_loss: bool = False

    def __repr__(self) -> str:
        ways = {"cut": self.cut, "spared": self.spared, "mass_loss": self.mass_loss or None}
        told = ", ".join(f"{key}={value}" for key, value in ways.items() if value is not None)
        return f"Chapter({self.events}{', ' if told else ''}{told})"


@dataclass(frozen=True, slots=True)
class Story:
    """A fleet with its first catalog, and what becomes of them."""

    fleet: FleetSnapshot
    catalog: Catalog
    chapters: tuple[Chapter, ...]

    def __repr__(self) -> str:
        hosts = {one.name: (len(one.devices or ()), one.facts and one.facts.memory) for one in self.fleet.nodes}
        wanted = {
            one.name: (
                one.replicas,
                one.spread,
                one.priority,
                one.rollout,
                [(by.gpus, [*by.devices], by.min_memory_bytes, by.node_selector, by.args) for by in one.profiles],
            )
            for one in self.catalog.services
        }
        return f"Story({hosts}, {wanted},\n  " + ",\n  ".join(map(repr, self.chapters)) + ")"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        del cycle
        printer.text(repr(self))


CATALOG_EVENTS = (
    "scale",
    "args",
    "rename",
    "delete",
    "add",
    "memory",
    "rollout",
    "spread",
    "priority",
    "gpus",
    "class",
)
HOST_EVENTS = ("lose", "cut_off", "answer", "cordon", "uncordon", "drain", "undrain", "break_card", "mend_card")
UNIT_EVENTS = ("stop", "edit", "remove", "outdate", "double", "gateway_forgets", "gateway_away", "gateway_back")


@st.composite
def events(draw: st.DrawFn, kinds: tuple[str, ...]) -> Event:
    return Event(draw(st.sampled_from(kinds)), draw(st.integers(0, 7)), draw(st.integers(0, 11)))


def chapters(kinds: tuple[str, ...], *, whole: bool) -> st.SearchStrategy[Chapter]:
    """Chapters of such events. `whole`: their applies come to their end and may touch every host."""
    happening = st.lists(events(kinds), max_size=3).map(tuple)
    if whole:
        return st.builds(Chapter, happening)
    return st.builds(
        Chapter,
        happening,
        cut=st.none() | st.integers(0, 12),
        spared=st.sampled_from([None, None, None, 0, 1]),
        mass_loss=st.sampled_from([False, False, True]),
    )


@st.composite
def stories(
    draw: st.DrawFn, kinds: tuple[str, ...] = CATALOG_EVENTS + HOST_EVENTS + UNIT_EVENTS, *, whole: bool = False
) -> Story:
    told = draw(st.lists(chapters(kinds, whole=whole), min_size=1, max_size=5))
    return Story(draw(nodes()), draw(catalogs()), tuple(told))


def edited(catalog: Catalog, event: Event) -> Catalog:
    """The catalog after an event of CATALOG_EVENTS; as it was where the event finds nothing to change."""
    services = {one.name: one for one in catalog.services}
    if event.kind == "add":
        one = _fresh(event)
        return _of({one.name: one} | services)
    if not services:
        return catalog
    name = sorted(services)[event.target % len(services)]
    if event.kind == "delete":
        del services[name]
    elif event.kind == "rename":
        free = [ServiceName(one) for one in NAMES if one not in services]
        if free:
            services[free[event.value % len(free)]] = replace(
                services.pop(name), name=free[event.value % len(free)], served_name=free[event.value % len(free)]
            )
    else:
        services[name] = _EDITS[event.kind](services[name], event.value)
    return _of(services)


def _of(services: Mapping[ServiceName, ServiceSpec]) -> Catalog:
    digest = "sha256:" + "".join(f"{services[name]!r}" for name in sorted(services))
    return Catalog(tuple(services[name] for name in sorted(services)), digest=digest)


def _fresh(event: Event) -> ServiceSpec:
    name = NAMES[event.target % len(NAMES)]
    gpus = event.value % 3
    made = profile(f"{name}-p0", classes=CLASSES[: 1 + event.value % 2] if gpus else (), gpus=gpus)
    return service(name, replicas=1 + event.value % 4, profiles=(made,))


def _scale(one: ServiceSpec, value: int) -> ServiceSpec:
    return replace(one, replicas=value % 6)


def _args(one: ServiceSpec, value: int) -> ServiceSpec:
    return replace(one, profiles=tuple(replace(by, args=("--n", str(value))) for by in one.profiles))


def _memory(one: ServiceSpec, value: int) -> ServiceSpec:
    memory = (None, 5 * GB, 10 * GB, 40 * GB)[value % 4]
    return replace(one, profiles=tuple(replace(by, min_memory_bytes=memory) for by in one.profiles))


def _rollout(one: ServiceSpec, value: int) -> ServiceSpec:
    away, surge = (0, 1, 2, 1)[value % 4], (None, 0, 1, 2)[value // 3 % 4]
    canary = CanarySpec() if value % 5 == 0 else None
    return replace(one, rollout=RolloutSpec(max_surge=surge, max_unavailable=away, canary=canary))


def _spread(one: ServiceSpec, value: int) -> ServiceSpec:
    return replace(one, spread=(None, "node", "rack")[value % 3])


def _priority(one: ServiceSpec, value: int) -> ServiceSpec:
    return replace(one, priority=value % 3)


def _gpus(one: ServiceSpec, value: int) -> ServiceSpec:
    gpus = value % 3
    classes = tuple(map(DeviceClass, CLASSES)) if gpus else ()
    return replace(
        one,
        profiles=tuple(replace(by, gpus=gpus, devices=by.devices or classes if gpus else ()) for by in one.profiles),
    )


def _class(one: ServiceSpec, value: int) -> ServiceSpec:
    wanted = (DeviceClass(CLASSES[value % 2]),)
    return replace(one, profiles=tuple(replace(by, devices=wanted if by.gpus else ()) for by in one.profiles))


_EDITS: Mapping[str, Callable[[ServiceSpec, int], ServiceSpec]] = {
    "scale": _scale,
    "args": _args,
    "memory": _memory,
    "rollout": _rollout,
    "spread": _spread,
    "priority": _priority,
    "gpus": _gpus,
    "class": _class,
}
