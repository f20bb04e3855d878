# SPDX-License-Identifier: Apache-2.0
"""The placeable devices of a node: whole cards, or the MIG instances of cards in MIG mode (D5)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from llmgw.fleet.quarantine import mark_findings
from llmgw.model.ids import DeviceClass, DeviceId
from llmgw.model.node import Device
from llmgw.nodekit import contract

MIG_INDEX_BASE = 1000
MIG_INDEX_STRIDE = 100
ADMISSION_ONLY = frozenset({"foreign-memory", "remap-pending", "retirement-pending", "uuid-duplicate"})
"""Blocking findings that move nothing (P1b): a stranger's process on a card must not cost the replica that serves
there, and a bad memory row that waits for a reset does not hurt what runs.
"""
_Sorted = tuple[tuple[contract.Finding, ...], tuple[contract.Finding, ...]]


def devices_of(
    facts: contract.NodeFacts, old: Container[contract.Finding] = (), node: str | None = None
) -> tuple[Device, ...] | None:
    """The devices in placement order, or None when the cards are unknown. A card without UUID or class cannot be
    placed on. Findings that are too old (`old`) move nothing (D18); marks hold until somebody clears them, by a command
    that names the `node`.
    """
    if facts.gpus is None:
        return None
    findings = (*facts.findings, *mark_findings(facts, node))
    blocking = [finding for finding in findings if finding.severity == "block" and finding.subject]
    found = [device for gpu in facts.gpus for device in _of_card(gpu, blocking, old)]
    return tuple(sorted(found, key=lambda device: device.index))


def _slots(gpu: contract.Gpu) -> Iterator[tuple[int, str, str, contract.MigInstance | None]]:
    """What can be placed on of a card: index, UUID, class, and the MIG instance if it is one."""
    if gpu.mig_mode:
        for one in gpu.mig_instances:
            if one.uuid is not None and one.device_class is not None:
                yield MIG_INDEX_BASE + MIG_INDEX_STRIDE * gpu.index + one.index, one.uuid, one.device_class, one
    elif gpu.uuid is not None and gpu.device_class is not None:
        yield gpu.index, gpu.uuid, gpu.device_class, None


def _of_card(
    gpu: contract.Gpu, blocking: Iterable[contract.Finding], old: Container[contract.Finding]
) -> Iterator[Device]:
    card_findings = tuple(finding for finding in blocking if finding.subject == gpu.uuid)
    for index, uuid, device_class, instance in _slots(gpu):
        if instance is not None:
            own = tuple(finding for finding in blocking if finding.subject == uuid)
            yield _instance(gpu, instance, (index, uuid, device_class), _sorted(card_findings + own, old))
        else:
            yield _card(gpu, (index, uuid, device_class), _sorted(card_findings, old))


def _card(gpu: contract.Gpu, slot: tuple[int, str, str], findings: _Sorted) -> Device:
    index, uuid, device_class = slot
    evicting, admission = findings
    return Device(
        uuid=DeviceId(uuid),
        index=index,
        display_name=str(gpu.index),
        device_class=DeviceClass(device_class),
        memory_total_mib=gpu.memory_total_mib,
        foreign_used_mib=_foreign(gpu.processes),
        compute_capability=gpu.compute_capability,
        numa_node=gpu.numa_node,
        nvlink_peers=None if gpu.nvlink_peers is None else tuple(DeviceId(peer.uuid) for peer in gpu.nvlink_peers),
        nic_paths=gpu.nic_paths,
        fabric=gpu.fabric,
        blocked_by=evicting,
        kept_away_by=admission + _outside_its_fabric(gpu),
    )


def _instance(
    gpu: contract.Gpu, instance: contract.MigInstance, slot: tuple[int, str, str], findings: _Sorted
) -> Device:
    index, uuid, device_class = slot
    return Device(
        uuid=DeviceId(uuid),
        index=index,
        display_name=f"{gpu.index}/mig{instance.index}",
        device_class=DeviceClass(device_class),
        memory_total_mib=instance.memory_total_mib,
        foreign_used_mib=_foreign(instance.processes),
        compute_capability=gpu.compute_capability,
        numa_node=gpu.numa_node,
        mig=True,
        blocked_by=findings[0],
        kept_away_by=findings[1],
    )


def _outside_its_fabric(gpu: contract.Gpu) -> tuple[contract.Finding, ...]:
    """Why a card starts no new CUDA program: error 802 until it has joined its machine's NVSwitches (D7)."""
    state = gpu.fabric.state if gpu.fabric else None
    if state is None or state.lower() == "completed":
        return ()
    message = f"card {gpu.index} has not joined its NVLink fabric: {state}"
    return (contract.Finding("fabric-not-joined", "block", message, subject=gpu.uuid),)


def _sorted(findings: tuple[contract.Finding, ...], old: Container[contract.Finding]) -> _Sorted:
    """The findings that evict, and those that only keep new replicas away."""
    admission = tuple(finding for finding in findings if finding.code in ADMISSION_ONLY or finding in old)
    return tuple(finding for finding in findings if finding not in admission), admission


def _foreign(processes: tuple[contract.DeviceProcess, ...] | None) -> int | None:
    """MiB held by processes that no llmgw unit owns; None when any amount is unknown."""
    if processes is None:
        return None
    total = 0
    for process in processes:
        if process.unit is None:
            if process.used_mib is None:
                return None
            total += process.used_mib
    return total
