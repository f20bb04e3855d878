# SPDX-License-Identifier: Apache-2.0
"""What there is once a plan is carried out: replicas by service, replicas and devices by node and class (R1, V1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from llmgw.model.ids import DeviceId, NodeName
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.placement import Placement
from llmgw.model.replica import Catalog
from llmgw.plan.wording import number, some

_Held = frozenset[tuple[NodeName, DeviceId]]


def after_lines(
    catalog: Catalog, placement: Placement, fleet: FleetSnapshot, *, title: str = "After this plan:"
) -> list[str]:
    """Replicas of each service, replicas and used devices of each node, and devices of each class. What must leave and
    has no other place goes on running, and has its devices.
    """
    return [title, *_lines(catalog, placement, fleet)]


def _lines(catalog: Catalog, placement: Placement, fleet: FleetSnapshot) -> Iterator[str]:
    yield from _services(catalog, placement)
    held, replicas = _held(placement, fleet), _replicas(placement)
    width = max((len(node.name) for node in fleet.nodes), default=0)
    counts = [number(replicas[node.name], "replica") for node in fleet.nodes]
    wide = max(map(len, counts), default=0)
    for node, count in zip(fleet.nodes, counts, strict=True):
        yield f"  {node.name:<{width}}  {count:<{wide}}  {_devices(node, held)}"
    total, used = Counter[str](), Counter[str]()
    for node in fleet.nodes:
        for device in node.devices or ():
            total[device.device_class] += 1
            used[device.device_class] += (node.name, device.uuid) in held
    for name in sorted(total):
        yield f"  {name}: {used[name]} of {number(total[name], 'device')} used"
    blind = [node.name for node in fleet.nodes if node.devices is None]
    if blind:
        yield f"  not counted are the devices of {some(blind)}: they are unknown"


def _services(catalog: Catalog, placement: Placement) -> Iterator[str]:
    width = max((len(service.name) for service in catalog.services), default=0)
    placed = Counter(one.service.name for one in placement.assignments)
    on: dict[str, Counter[str]] = {}
    for one in placement.assignments:
        on.setdefault(one.service.name, Counter()).update(member.node for member in one.members)
    for service in catalog.services:
        where = [f"{count} on {node}" for node, count in sorted(on.get(service.name, {}).items())]
        have = f"{placed[service.name]} of {number(service.replicas, 'replica')}"
        yield f"  {service.name:<{width}}  {have}{f': {some(where)}' if where else ''}"


def _replicas(placement: Placement) -> Counter[NodeName]:
    found = Counter(member.node for one in placement.assignments for member in one.members)
    found.update(node for one in placement.unplaced for node in one.runs_on)
    return found


def _held(placement: Placement, fleet: FleetSnapshot) -> _Held:
    """The devices of what is placed, and of what goes on running without a place."""
    held = {
        (member.node, device) for one in placement.assignments for member in one.members for device in member.devices
    }
    stays = {(one.replica, node) for one in placement.unplaced for node in one.runs_on}
    for node in fleet.nodes:
        for unit in (node.facts.units or ()) if node.facts and stays else ():
            if (unit.replica, node.name) in stays:
                held.update((node.name, DeviceId(uuid)) for uuid in unit.devices)
    return frozenset(held)


def _devices(node: Node, held: _Held) -> str:
    """`3/4 h200-141g used`, by class."""
    if node.devices is None:
        return "devices unknown"
    classes = Counter(device.device_class for device in node.devices)
    used = Counter(device.device_class for device in node.devices if (node.name, device.uuid) in held)
    parts = [f"{used[name]}/{count} {name}" for name, count in sorted(classes.items())]
    return f"{', '.join(parts)} used" if parts else "no devices"
