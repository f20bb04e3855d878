# SPDX-License-Identifier: Apache-2.0
"""What supposed nodes are taken to be beyond what was said of them, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmgw.model.node import FleetSnapshot
from llmgw.whatif.joins import Joins
from llmgw.whatif.likeness import Likeness
from llmgw.whatif.spec import GB, NONE, NodesSpec


def assumptions(fleet: FleetSnapshot, spec: NodesSpec, devices: str, found: Likeness, joins: Joins) -> tuple[str, ...]:
    """The sentences; `devices`: what a node has, in words."""
    return (*_build(spec, devices, found), *_fabric(fleet, spec, found, joins), *_domain(fleet, spec, found))


def _build(spec: NodesSpec, devices: str, found: Likeness) -> Iterator[str]:
    model = found.model
    memory = [] if spec.memory_bytes else ["memory"]
    if model is None or model.facts is None:
        unknown = ["topology" if spec.devices else "processors", *memory, "disks"]
        yield f"no node of the fleet has {devices}: {_and(unknown)} are unknown, and unknown keeps nothing away"
        yield "the engines that the catalog uses are installed"
        if memory:
            yield "memory=GB tells the host memory"
    else:
        same = ["topology", *memory] if spec.devices else memory
        yield f"built like {model.name}: {_and([*same, 'engines', 'mounts'])} as there, own disks empty"
    if spec.memory_bytes:
        yield f"{spec.memory_bytes // GB} GB of memory"
    labels = found.labels | spec.labels
    if labels:
        copied = "" if labels == spec.labels else ", as on all such nodes" if len(found.like) > 1 else ", as there"
        told = ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
        yield f"label{'s' if len(labels) > 1 else ''} {told}{copied}"
    if model is not None and model.facts is not None and any(not one.shared for one in model.facts.weights or ()):
        yield f"of the weights on {model.name} only those on shared storage"
    if spec.weights:
        yield f"the weights of {_and(spec.weights)} lie there"


def _fabric(fleet: FleetSnapshot, spec: NodesSpec, found: Likeness, joins: Joins) -> Iterator[str]:
    names = [fabric.name for fabric in fleet.fabrics]
    if joins.fabric is not None:
        if joins.fabric in names:
            yield f"in fabric {joins.fabric}, confirmed"
        else:
            has = f"the fleet has {_and(names)}" if names else "the fleet has none"
            yield f"in a fabric of their own, {joins.fabric}: {has}"
        if not joins.moved:
            yield "their ports are not known: one for each device, mlx5_0 and so on"
    if joins.kept:
        yield f"in {_and(joins.kept)}, as all such nodes"
    if spec.fabric is None and len(found.fabrics) > 1:
        known = [f"in {_and(sorted(one))}" if one else "in none" for one in found.fabrics]
        other = " other" if joins.kept else ""
        yield f"in no{other} fabric, as such nodes are {' or '.join(known)}: fabric=NAME tells it"
    elif spec.fabric == NONE:
        yield "in no fabric"
    elif spec.fabric is None and not joins.kept and spec.devices and (names or found.model is None):
        yield "in no fabric: fabric=NAME tells it"


def _domain(fleet: FleetSnapshot, spec: NodesSpec, found: Likeness) -> Iterator[str]:
    if spec.domain not in (None, NONE):
        known = any(domain.name == spec.domain for domain in fleet.domains)
        yield f"in {'' if known else 'a new '}NVLink domain {spec.domain}, every card joined and IMEX up"
    elif spec.domain is None and any(node.domain for node in found.like):
        yield "in no NVLink domain, unlike such nodes: domain=NAME tells it"


def _and(words: Iterable[str]) -> str:
    *most, last = sorted(words) if isinstance(words, frozenset) else words
    return f"{', '.join(most)} and {last}" if most else last
