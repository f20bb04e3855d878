# SPDX-License-Identifier: Apache-2.0
"""What runs in the showcase: replicas at chosen places, with the units that llmgw itself would have written for them.

Where they run is chosen here, and not by the planner, so that the story stays when the planner gets better. How their
units read is llmgw's affair: the catalog that was applied last is applied once more to a world in which they run there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llmgw.decide import Decision
from llmgw.model.ids import NodeName, ProfileName, ServiceName
from llmgw.model.node import Device, FleetSnapshot, Node
from llmgw.model.plan import ActionKind
from llmgw.model.replica import Catalog, ModelSpec, ProfileSpec, ServiceSpec
from llmgw.nodekit import contract, unitfile
from tests.support.fleets import with_facts
from tests.support.showcase.boxes import GENERATION
from tests.support.world import World

ALL = tuple(range(8))
TRAY = (0, 1, 2, 3)
Place = tuple[str, tuple[int, ...]]
"""A node, and indexes of devices: those of cards, 1000 + 100 x card + instance of MIG instances."""
PLACES: dict[str, tuple[Place, ...]] = {
    "deepseek-r1/0": (("h100-a1", ALL), ("h100-a2", ALL)),
    "chat-70b/0": (("h100-a3", (0, 1, 2, 3)),),
    "chat-70b/1": (("h100-a3", (4, 5, 6, 7)),),
    "chat-70b/2": (("h100-a4", (0, 1, 2, 3)),),
    "chat-70b/3": (("h100-b1", (0, 1, 2, 3)),),
    "chat-70b/4": (("h100-b1", (4, 5, 6, 7)),),
    "chat-70b/5": (("h100-b2", (0, 1, 2, 3)),),
    "coder/0": (("h100-b2", (4, 5)),),
    "coder/1": (("h100-b2", (6, 7)),),
    "coder/2": (("h100-a5", (0, 1)),),
    "coder/3": (("h100-a5", (2, 3)),),
    "vision/0": (("h100-a5", (4, 5, 6, 7)),),
    "vision/1": (("h100-b3", (0, 1, 2, 3)),),
    "agent/0": (("h100-a6", (0,)),),
    "agent/1": (("h100-b3", (6,)),),
    "agent/2": (("h100-b3", (4,)),),
    "qwen3-235b/0": (("h200-1", ALL),),
    "qwen3-235b/1": (("h200-4", ALL),),
    "batch-summaries/0": (("h200-2", ALL),),
    "batch-summaries/1": (("h200-3", ALL),),
    "deepseek-v32/0": tuple((f"gb200-{tray:02d}", TRAY) for tray in (1, 2, 3, 4)),
    "kimi-k2/0": tuple((f"gb200-{tray:02d}", TRAY) for tray in (5, 6, 8, 12)),
    "chat-8b/0": (("l40s-1", (0,)),),
    "chat-8b/1": (("l40s-2", (0,)),),
    "chat-8b/2": (("l40s-3", (0,)),),
    "chat-8b/3": (("l40s-4", (0,)),),
    "chat-8b/4": (("l40s-5", (0,)),),
    "chat-8b/5": (("l40s-6", (1,)),),
    "whisper/0": (("l40s-1", (2,)),),
    "whisper/1": (("l40s-4", (3,)),),
    "phi-4/0": (("l40s-2", (1,)),),
    "phi-4/1": (("l40s-3", (2,)),),
    "phi-4/2": (("l40s-5", (1,)),),
    "guard/0": (("a100-mig-1", (1000,)),),
    "guard/1": (("a100-mig-2", (1000,)),),
    "embed/0": (("a100-mig-1", (1100,)),),
    "embed/1": (("a100-mig-1", (1101,)),),
    "embed/2": (("a100-mig-2", (1100,)),),
    "embed/3": (("a100-mig-3", (1000,)),),
    "embed-large/0": (("a100-mig-1", (1001,)),),
    "embed-large/1": (("a100-mig-2", (1001,)),),
    "rerank/0": (("a100-mig-1", (1102,)),),
    "rerank/1": (("a100-mig-3", (1001,)),),
    "mistral/0": (("a100-pcie-2", (0, 1)),),
    "mistral/1": (("a100-pcie-3", (0, 1)),),
    "gemma/0": (("a100-pcie-1", (1,)),),
    "gemma/1": (("a100-pcie-2", (2,)),),
    "smol/0": (("cpu-1", ()),),
    "smol/1": (("cpu-4", ()),),
    "smol/2": (("cpu-5", ()),),
    "smol/3": (("cpu-2", ()),),
    "offline/0": (("cpu-1", ()),),
    "offline/1": (("cpu-2", ()),),
    "legacy-chat/0": (("cpu-3", ()),),
}
"""By replica, in the order of ranks."""
_FIRST_PORT = 18000


def applied_before(catalog: Catalog) -> Catalog:
    """The catalog that was applied last: fewer replicas, one service that is gone now, one with other arguments."""
    services = [replace(one, replicas=_running(one.name)) for one in catalog.services if _running(one.name)]
    services = [_with_shorter_context(one) if one.name == "coder" else one for one in services]
    services.append(_legacy(next(one for one in services if one.name == "smol")))
    return replace(catalog, services=tuple(sorted(services, key=lambda one: one.name)))


def running(catalog: Catalog, fleet: FleetSnapshot) -> World:
    """The fleet on which the replicas run at their places, and the routes to them."""
    world = World(_with_rough_units(catalog, fleet))
    decision = world.apply(catalog)
    _in_place(decision)
    return world


def _running(service: str) -> int:
    return sum(replica.rpartition("/")[0] == service for replica in PLACES)


def _with_shorter_context(service: ServiceSpec) -> ServiceSpec:
    return replace(service, profiles=tuple(replace(one, max_model_len=32768) for one in service.profiles))


def _legacy(like: ServiceSpec) -> ServiceSpec:
    profile = replace(
        like.profiles[0],
        name=ProfileName("legacy-chat-cpu"),
        model=ModelSpec(like.profiles[0].model.name, path=like.profiles[0].model.path),
    )
    return replace(
        like, name=ServiceName("legacy-chat"), served_name="legacy-chat", profiles=(profile,), replicas=1, spread=None
    )


def _with_rough_units(catalog: Catalog, fleet: FleetSnapshot) -> FleetSnapshot:
    """Units that say which replica is where. Their text is not known, so that llmgw joins members as the fleet is."""
    services = {one.name: one for one in catalog.services}
    nodes = {node.name: node for node in fleet.nodes}
    units: dict[str, list[contract.ObservedUnit]] = {name: [] for name in nodes}
    for replica, places in PLACES.items():
        service = services[ServiceName(replica.rpartition("/")[0])]
        profile = next(one for one in service.profiles if _suits(one, nodes, places))
        for rank, (name, indexes) in enumerate(places):
            node = nodes[NodeName(name)]
            held = tuple(device.uuid for device in _devices(node, indexes))
            port = _FIRST_PORT + len(units[name])
            unit = _rough(replica, service, profile, rank)
            units[name].append(replace(unit, address=node.address, port=port, devices=held))
    told = (
        with_facts(node, replace(node.facts, units=tuple(units[node.name]))) if node.facts else node
        for node in fleet.nodes
    )
    return replace(fleet, nodes=tuple(told))


def _suits(profile: ProfileSpec, nodes: dict[NodeName, Node], places: tuple[Place, ...]) -> bool:
    classes = {device.device_class for name, indexes in places for device in _devices(nodes[NodeName(name)], indexes)}
    return classes <= set(profile.devices) and len(places) == profile.nodes


def _rough(replica: str, service: ServiceSpec, profile: ProfileSpec, rank: int) -> contract.ObservedUnit:
    return contract.ObservedUnit(
        name=unitfile.unit_name(service.name, int(replica.rpartition("/")[2]), rank),
        replica=replica,
        rank=rank,
        members=profile.nodes,
        profile=profile.name,
        model=profile.model.name,
        engine=profile.engine,
        served_name=service.served_name,
        memory_min_bytes=profile.min_memory_bytes,
        active_state="active",
        sub_state="running",
        main_pid=100,
        process_digest="sha256:0",
        running_digest="sha256:0",
        text_digest="sha256:0",
        actual_text_digest="sha256:0",
        edited=False,
        generation=GENERATION - 1,
    )


def _devices(node: Node, indexes: tuple[int, ...]) -> Iterator[Device]:
    found = {device.index: device for device in node.devices or ()}
    yield from (found[index] for index in indexes)


def _in_place(decision: Decision) -> None:
    """Fails unless every replica is where it was put."""
    moved = [
        f"{action.replica}: {action.kind.value} on {', '.join(action.nodes)} ({'; '.join(action.reasons)})"
        for action in decision.plan.actions
        if action.kind in (ActionKind.CREATE, ActionKind.MOVE, ActionKind.STOP)
    ]
    moved += [f"{one.replica}: has no place" for one in decision.plan.unplaced]
    if moved:
        message = "the planner does not take the showcase's replicas where they run:\n" + "\n".join(moved)
        raise AssertionError(message)
