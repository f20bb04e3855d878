# SPDX-License-Identifier: Apache-2.0
"""Random fleets and catalogs, small enough to shrink and odd enough to matter."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hypothesis import strategies as st

from llmgw.model.ids import EngineKind, ModelName, ProfileName
from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import CanarySpec, Catalog, ModelSpec, ProfileSpec, RolloutSpec, ServiceSpec
from tests.support.fleets import GB, catalog, fleet, node, profile, service

CLASSES = ("h200-141g", "l40s-45g")
ROLLOUTS = (
    RolloutSpec(),
    RolloutSpec(max_surge=0, max_unavailable=2),
    RolloutSpec(max_surge=1, max_unavailable=0),
    RolloutSpec(max_surge=2),
    RolloutSpec(canary=CanarySpec()),
    RolloutSpec(max_surge=0, canary=CanarySpec()),
)


@dataclass(frozen=True, repr=False)
class Case:
    fleet: FleetSnapshot
    first: Catalog
    second: Catalog

    def __repr__(self) -> str:
        """What is drawn of it, short enough to be read."""
        machines = {
            one.name: [len(one.devices or ()), one.facts and one.facts.memory, one.labels, one.cordoned]
            for one in self.fleet.nodes
        }
        return f"Case({machines}, {_wanted(self.first)}, {_wanted(self.second)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        del cycle
        printer.text(repr(self))


def _wanted(wanted: Catalog) -> dict[str, object]:
    defaults = ProfileSpec(ProfileName("p"), EngineKind("sim"), ModelSpec(ModelName("m")))
    return {
        one.name: (
            one.replicas,
            one.spread,
            one.priority,
            [
                {key: value for key, value in asdict(by).items() if value != getattr(defaults, key)}
                for by in one.profiles
            ],
        )
        for one in wanted.services
    }


@st.composite
def nodes(draw: st.DrawFn, names: tuple[str, ...] = ("n1", "n2", "n3", "n4", "n5")) -> FleetSnapshot:
    count = draw(st.integers(1, len(names)))
    made = [
        node(
            name,
            gpus=draw(st.integers(0, 4)),
            device_class=draw(st.sampled_from(CLASSES)),
            memory_gb=draw(st.sampled_from([None, 16, 64])),
            labels={"rack": draw(st.sampled_from(["a", "b"]))},
            cordoned=draw(st.sampled_from([False, False, False, True])),
        )
        for name in names[:count]
    ]
    return fleet(*made)


@st.composite
def profiles(draw: st.DrawFn, name: str) -> ProfileSpec:
    gpus = draw(st.integers(0, 2))
    classes = tuple(draw(st.permutations(CLASSES))[: draw(st.integers(1, 2))]) if gpus else ()
    memory = draw(st.sampled_from([None, 10, 40]))
    return profile(
        name,
        classes=classes,
        gpus=gpus,
        min_memory_bytes=None if memory is None else memory * GB,
        args=tuple(draw(st.sampled_from([(), ("--a",), ("--b", "50% $x")]))),
        node_selector=draw(st.sampled_from([{}, {}, {"rack": "a"}])),
    )


@st.composite
def services(draw: st.DrawFn, name: str) -> ServiceSpec:
    made = [draw(profiles(f"{name}-p{number}")) for number in range(draw(st.integers(1, 2)))]
    return service(
        name,
        replicas=draw(st.integers(0, 4)),
        profiles=tuple(made),
        priority=draw(st.integers(0, 1)),
        spread=draw(st.sampled_from([None, None, "node", "rack"])),
        rollout=draw(st.sampled_from(ROLLOUTS)),
    )


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    names = draw(st.sampled_from([("a",), ("a", "b"), ("a", "b", "c")]))
    return catalog(*(draw(services(name)) for name in names))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return Case(draw(nodes()), draw(catalogs()), draw(catalogs()))
