# SPDX-License-Identifier: Apache-2.0
"""Random fleets and catalogs, small enough to shrink and odd enough to matter."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import Catalog, ProfileSpec, RolloutSpec, ServiceSpec
from tests.support.fleets import GB, catalog, fleet, node, profile, service

CLASSES = ("h200-141g", "l40s-45g")


@dataclass(frozen=True)
class Case:
    fleet: FleetSnapshot
    first: Catalog
    second: Catalog


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
        rollout=RolloutSpec(max_unavailable=draw(st.integers(1, 2))),
    )


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    names = draw(st.sampled_from([("a",), ("a", "b"), ("a", "b", "c")]))
    return catalog(*(draw(services(name)) for name in names))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return Case(draw(nodes()), draw(catalogs()), draw(catalogs()))
