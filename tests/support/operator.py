# SPDX-License-Identifier: Apache-2.0
"""Somebody who does what a relaxation says, by its kind and values alone, as an operator would from the JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from llmgw.model.fabric import Verdict
from llmgw.model.ids import DeviceClass
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.model.why import Relaxation, Step
from llmgw.nodekit import contract
from tests.support.fleets import GB

Values = dict[str, Any]


def done(relaxation: Relaxation, node: str, catalog: Catalog, fleet: FleetSnapshot) -> tuple[Catalog, FleetSnapshot]:
    """Catalog and fleet after all steps, on this node; on all nodes of the relaxation where they go together."""
    names = set(relaxation.nodes) if relaxation.together else {node}
    for step in relaxation.steps:
        if step.entry is None:
            nodes = tuple(_on_node(one, step) if one.name in names else one for one in fleet.nodes)
            members = {one.name: one.domain for one in nodes if one.domain is not None}
            domains = tuple(
                replace(one, members=tuple(members.get(member.node, member) for member in one.members))
                for one in fleet.domains
            )
            fleet = replace(fleet, nodes=nodes, domains=domains)
        else:
            catalog = _in_catalog(catalog, step)
    return catalog, fleet


def _in_catalog(catalog: Catalog, step: Step) -> Catalog:
    section, _, name = (step.entry or "").partition(".")
    if section == "fleet":
        low, _, high = str(step.values["port_range"]).partition("-")
        return replace(catalog, fleet=replace(catalog.fleet, port_range=(int(low), int(high))))
    services = []
    for service in catalog.services:
        if section == "services" and service.name == name:
            services.append(_of_service(service, step.values))
        else:
            change = _PROFILES.get(step.kind)
            profiles = tuple(
                change(one, step.values) if change is not None and section == "profiles" and one.name == name else one
                for one in service.profiles
            )
            services.append(replace(service, profiles=profiles))
    return replace(catalog, services=tuple(services))


def _of_service(service: ServiceSpec, values: Values) -> ServiceSpec:
    return replace(service, **values)


def _without_labels(profile: ProfileSpec, values: Values) -> ProfileSpec:
    left = {key: value for key, value in profile.node_selector.items() if key not in values}
    return replace(profile, node_selector=left)


_PROFILES: dict[str, Callable[[ProfileSpec, Values], ProfileSpec]] = {
    "min_memory_gb": lambda one, values: replace(one, min_memory_bytes=int(values["min_memory_gb"] * GB)),
    "min_free_disk_gb": lambda one, values: replace(one, min_free_disk_bytes=int(values["min_free_disk_gb"] * GB)),
    "node-selector": _without_labels,
    "device-class": lambda one, values: replace(
        one, devices=tuple(map(DeviceClass, str(values["devices"]).split(", ")))
    ),
    "slow-path": lambda one, values: replace(one, allow_slow_path=tuple(str(values["allow_slow_path"]).split(", "))),
    "fewer-devices": lambda one, values: replace(one, **values),
    "more-devices": lambda one, values: replace(one, **values),
    "one-node": lambda one, values: replace(one, **values),
    "max_model_len": lambda one, values: replace(one, **values),
    "parallel_requests": lambda one, values: replace(one, **values),
}


def _on_node(node: Node, step: Step) -> Node:
    for kind in step.kind.split("+"):
        node = _NODES[kind](node, step)
    return node


def _labelled(node: Node, step: Step) -> Node:
    own = {key: f"{key} of {node.name}" if value is None else str(value) for key, value in step.values.items()}
    return replace(node, labels=node.labels | own)


def _with_engine(node: Node, step: Step) -> Node:
    wanted = str(step.values["engine"])
    engine = contract.Engine(wanted, (f"/usr/bin/{wanted}",), "1.0", runnable=True)
    others = tuple(one for one in _facts(node).engines or () if one.kind != wanted)
    return replace(node, facts=replace(_facts(node), engines=(*others, engine)))


def _with_driver(node: Node, step: Step) -> Node:
    driver = _facts(node).driver
    assert driver is not None
    return replace(node, facts=replace(_facts(node), driver=replace(driver, cuda_version=str(step.values["cuda"]))))


def _with_disk(node: Node, step: Step) -> Node:
    freed = int((step.needs or 0) - (step.has or 0))
    disks = tuple(replace(one, free_bytes=(one.free_bytes or 0) + freed) for one in _facts(node).filesystems or ())
    return replace(node, facts=replace(_facts(node), filesystems=disks))


def _with_whole_cards(node: Node, step: Step) -> Node:
    whole = set(str(step.values["devices"]).split(", "))
    devices = tuple(
        replace(one, blocked_by=(), kept_away_by=()) if one.uuid in whole else one for one in node.devices or ()
    )
    return replace(node, devices=devices)


def _in_its_domain(node: Node, _step: Step) -> Node:
    assert node.domain is not None
    devices = tuple(replace(one, kept_away_by=()) for one in node.devices or ())
    return replace(node, devices=devices, domain=replace(node.domain, ready=True, kept_out=()))


def _in_its_fabric(node: Node, step: Step) -> Node:
    ports = tuple(
        replace(one, verdict=Verdict.CONFIRMED) if one.fabric == step.values["fabric"] else one
        for one in node.ports or ()
    )
    return replace(node, ports=ports)


def _facts(node: Node) -> contract.NodeFacts:
    assert node.facts is not None
    return node.facts


_NODES: dict[str, Callable[[Node, Step], Node]] = {
    "reach": lambda node, _step: replace(node, state=NodeState.OK),
    "uncordon": lambda node, step: replace(node, cordoned=bool(step.values["llmgw_cordoned"])),
    "undrain": lambda node, step: replace(node, drained=bool(step.values["llmgw_drained"])),
    "label": _labelled,
    "label-domain": _labelled,
    "install-engine": _with_engine,
    "mend-engine": _with_engine,
    "driver": _with_driver,
    "free-disk": _with_disk,
    "foreign-card": _with_whole_cards,
    "mend-card": _with_whole_cards,
    "imex": _in_its_domain,
    "join-cards": _in_its_domain,
    "fabric": _in_its_fabric,
}
