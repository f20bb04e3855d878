# SPDX-License-Identifier: Apache-2.0
"""The facts of a machine that nobody has yet: as a like node reports itself when it is new, or what a class tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from llmgw.capability.device_classes import known_class
from llmgw.engines.registry import engine_of
from llmgw.model.node import FleetSnapshot
from llmgw.nodekit import contract
from llmgw.whatif.spec import NodesSpec

_JOINED = contract.GpuFabric(state="Completed", status="Success")


def copied(name: str, spec: NodesSpec, model: contract.NodeFacts) -> contract.NodeFacts:
    """The facts of a new machine that is built like the one with these facts: nothing runs on it, nothing is broken,
    its own disks are empty, and shared storage is mounted as there.
    """
    shared = tuple(one for one in model.weights or () if one.shared)
    uuids = {gpu.uuid: f"{name}-{gpu.index}" for gpu in model.gpus or () if gpu.uuid is not None}
    return contract.NodeFacts(
        system=replace(model.system, hostname=name, boot_id=None, listening_ports=()) if model.system else None,
        memory=_memory(spec) or model.memory,
        cpu=model.cpu,
        driver=model.driver,
        gpus=None if model.gpus is None else tuple(_card(gpu, uuids) for gpu in model.gpus),
        imex=replace(model.imex, nodes=(), configured=None, unconnected=None) if model.imex else None,
        rdma_ports=model.rdma_ports,
        filesystems=None if model.filesystems is None else tuple(map(_empty, model.filesystems)),
        weights=(*shared, *_weights(spec)) if model.weights is not None or spec.weights else None,
        engines=model.engines,
        units=(),
    )


def made_up(name: str, spec: NodesSpec, device_class: str, engines: tuple[contract.Engine, ...]) -> contract.NodeFacts:
    """The facts of a machine of which only its devices are known."""
    return contract.NodeFacts(
        memory=_memory(spec),
        gpus=tuple(_cards(name, device_class, spec.devices)),
        weights=tuple(_weights(spec)) or None,
        engines=engines,
        units=(),
    )


def engines_for(fleet: FleetSnapshot, kinds: Iterable[str]) -> tuple[contract.Engine, ...]:
    """Engines of these kinds as some node of the fleet has them, else where their role installs them."""
    seen: dict[str, contract.Engine] = {}
    for node in fleet.nodes:
        for engine in (node.facts.engines or ()) if node.facts else ():
            if engine.runnable is not False:
                seen.setdefault(engine.kind, engine)
    return tuple(seen.get(kind) or _installed(kind) for kind in sorted(set(kinds)))


def _installed(kind: str) -> contract.Engine:
    engine = engine_of(kind)
    return contract.Engine(kind, (engine.traits.default_command,) if engine else ())


def _memory(spec: NodesSpec) -> contract.Memory | None:
    return None if spec.memory_bytes is None else contract.Memory(spec.memory_bytes, spec.memory_bytes)


def _weights(spec: NodesSpec) -> Iterator[contract.Weights]:
    for model in spec.weights:
        yield contract.Weights(model, model, complete=True)


def _empty(filesystem: contract.Filesystem) -> contract.Filesystem:
    if filesystem.shared or filesystem.read_only or filesystem.total_bytes is None:
        return filesystem
    return replace(filesystem, free_bytes=filesystem.total_bytes)


def _card(gpu: contract.Gpu, uuids: Mapping[str, str]) -> contract.Gpu:
    """A new card like this one. Named are the fields that a new card has; wear, heat and load are not among them."""
    own = uuids.get(gpu.uuid or "")
    peers = gpu.nvlink_peers
    return contract.Gpu(
        index=gpu.index,
        uuid=own and f"GPU-{own}",
        name=gpu.name,
        device_class=gpu.device_class,
        pci_address=gpu.pci_address,
        form_factor=gpu.form_factor,
        compute_capability=gpu.compute_capability,
        memory_total_mib=gpu.memory_total_mib,
        unified_memory=gpu.unified_memory,
        processes=(),
        mig_mode=gpu.mig_mode,
        mig_instances=tuple(
            replace(one, uuid=one.uuid and f"MIG-{own}-{one.index}", memory_used_mib=None, processes=(), ecc=None)
            for one in gpu.mig_instances
        ),
        numa_node=gpu.numa_node,
        cpu_affinity=gpu.cpu_affinity,
        memory_numa_node=gpu.memory_numa_node,
        nvlink_links=gpu.nvlink_links,
        nvlink_links_active=gpu.nvlink_links_active,
        nvlink_gbps=gpu.nvlink_gbps,
        nvlink_peers=None
        if peers is None
        else tuple(replace(peer, uuid=f"GPU-{uuids[peer.uuid]}") for peer in peers if peer.uuid in uuids),
        nic_paths=gpu.nic_paths,
        fabric=_JOINED if gpu.fabric and gpu.fabric.state else None,
        vulkan_index=gpu.vulkan_index,
    )


def _cards(name: str, device_class: str, count: int) -> Iterator[contract.Gpu]:
    known = known_class(device_class)
    whole, _, instance = device_class.partition("-mig-")
    uuids = [f"GPU-{name}-{index}" for index in range(count)]
    for index, uuid in enumerate(uuids):
        card = contract.Gpu(
            index,
            uuid,
            device_class=whole,
            compute_capability=known.compute_capability if known else None,
            memory_total_mib=known.memory_mib if known and not instance else None,
            processes=(),
            mig_mode=bool(instance),
        )
        if instance:
            made = contract.MigInstance(
                f"MIG-{name}-{index}-0",
                0,
                profile=instance,
                device_class=device_class,
                memory_total_mib=known.memory_mib if known else None,
                processes=(),
            )
            yield replace(card, mig_instances=(made,))
        elif known is not None and known.product.nvlink_for_all:
            yield replace(card, nvlink_peers=tuple(contract.NvlinkPeer(other) for other in uuids if other != uuid))
        else:
            yield card
