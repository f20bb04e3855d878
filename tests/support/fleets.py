# SPDX-License-Identifier: Apache-2.0
"""Builders of small fleets and catalogs for tests of the pure core."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llmgw.fleet.devices import devices_of
from llmgw.model.ids import DeviceClass, EngineKind, ModelName, NodeName, ProfileName, ServiceName
from llmgw.model.node import FleetSnapshot, GatewayHost, Node, NodeState
from llmgw.model.replica import Catalog, ModelSpec, ProfileSpec, ServiceSpec
from llmgw.nodekit import contract

GB = 10**9
ENGINES = (
    contract.Engine("llama.cpp", ("/opt/llmgw/engines/llama.cpp/bin/llama-server",), "1.0", runnable=True),
    contract.Engine("sim", ("/opt/llmgw/engines/sim/bin/llmgw-sim",), "0.1.0", runnable=True),
)


def gpu(index: int, node: str, device_class: str = "h200-141g") -> contract.Gpu:
    return contract.Gpu(
        index, f"GPU-{node}-{index}", device_class.upper(), device_class, memory_total_mib=143771, mig_mode=False
    )


def facts(
    node: str, gpus: int = 0, memory_gb: int | None = 64, device_class: str = "h200-141g", **more: Any
) -> contract.NodeFacts:
    values: dict[str, Any] = {
        "collected_at": 1000.0,
        "system": contract.System(hostname=node, boot_id="b", journal=True, listening_ports=(22,)),
        "memory": contract.Memory(None if memory_gb is None else memory_gb * GB, None),
        "gpus": tuple(gpu(index, node, device_class) for index in range(gpus)),
        "engines": ENGINES,
        "units": (),
        "filesystems": (),
    }
    return contract.NodeFacts(**(values | more))


def node(name: str, gpus: int = 0, memory_gb: int | None = 64, **more: Any) -> Node:
    labels = more.pop("labels", {})
    state = more.pop("state", NodeState.OK)
    flags = {key: more.pop(key) for key in ("cordoned", "drained") if key in more}
    known = facts(name, gpus, memory_gb, **more)
    return Node(
        NodeName(name),
        f"10.0.0.{sum(map(ord, name)) % 250 + 1}",
        state,
        labels,
        facts=known,
        devices=devices_of(known),
        **flags,
    )


def with_facts(one: Node, known: contract.NodeFacts) -> Node:
    return replace(one, facts=known, devices=devices_of(known))


def fleet(*nodes: Node, gateway: str | None = "gw") -> FleetSnapshot:
    gateways = (GatewayHost(NodeName(gateway), NodeState.OK),) if gateway else ()
    return FleetSnapshot(tuple(sorted(nodes, key=lambda one: one.name)), gateways, 1000.0)


def model(name: str = "smol") -> ModelSpec:
    return ModelSpec(ModelName(name), path=f"/srv/models/{name}.gguf")


def profile(
    name: str = "cpu", engine: str = "sim", classes: tuple[str, ...] = (), gpus: int = 0, **more: Any
) -> ProfileSpec:
    return ProfileSpec(
        ProfileName(name),
        EngineKind(engine),
        more.pop("model", model()),
        tuple(map(DeviceClass, classes)),
        gpus,
        **more,
    )


def service(
    name: str = "chat", replicas: int = 2, profiles: tuple[ProfileSpec, ...] | None = None, **more: Any
) -> ServiceSpec:
    return ServiceSpec(ServiceName(name), more.pop("served_name", name), (), profiles or (profile(),), replicas, **more)


def catalog(*services: ServiceSpec) -> Catalog:
    return Catalog(tuple(sorted(services, key=lambda one: one.name)), digest="sha256:catalog")
