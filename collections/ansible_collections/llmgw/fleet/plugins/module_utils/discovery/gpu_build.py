# SPDX-License-Identifier: BSD-2-Clause
"""Finishes cards that a driver path has read: class, MIG identities, capability, owners of processes (D1).

Private to llmgw and pure. Every path to the cards ends here, so that equal hardware gives equal facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Callable, Iterable, Mapping

from ansible_collections.llmgw.fleet.plugins.module_utils import contract, unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_class, gpu_fabric, quoting

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_list import ListedGpu

_ENGINE_WORDS = ("vllm", "sglang", "llama-server", "llama_server", "ollama", "tritonserver", "text-generation", "tgi")


@dataclass(frozen=True)
class Cards:
    """What a path found: `gpus` is None when the cards are unknown, an empty tuple when the node has none."""

    gpus: tuple[contract.Gpu, ...] | None
    driver: contract.GpuDriver | None = None
    findings: tuple[contract.Finding, ...] = ()


def finish(
    gpus: Iterable[contract.Gpu],
    listed: Iterable[ListedGpu],
    capabilities: Mapping[str, str],
    unit_of: Callable[[int], str | None],
) -> tuple[contract.Gpu, ...]:
    """The cards with all that can be concluded from what was read; `unit_of` names the llmgw unit that owns a pid."""
    listings = tuple(listed)
    return tuple(_finish_card(gpu, listings, capabilities, unit_of) for gpu in gpus)


def owning_unit(cgroup: bytes | None) -> str | None:
    """The llmgw unit in the bytes of /proc/PID/cgroup; None when there is none or the process is gone (D14)."""
    for line in (cgroup or b"").decode("utf-8", "replace").splitlines():
        for part in line.split(":", 2)[-1].split("/"):
            if unitfile.is_replica_unit(part):
                return part
    return None


def foreign_engines(gpus: Iterable[contract.Gpu]) -> tuple[contract.ForeignEngine, ...]:
    """Processes named like an engine that hold device memory and are in no llmgw unit, by pid (D14)."""
    names: dict[int, str] = {}
    devices: dict[int, list[str]] = {}
    for gpu in gpus:
        for uuid, process in processes_on(gpu):
            if process.unit is None and process.name and any(word in process.name.lower() for word in _ENGINE_WORDS):
                names[process.pid] = process.name
                if uuid is not None:
                    devices.setdefault(process.pid, []).append(uuid)
    return tuple(contract.ForeignEngine(pid, names[pid], tuple(devices.get(pid, ()))) for pid in sorted(names))


def processes_on(gpu: contract.Gpu) -> Iterable[tuple[str | None, contract.DeviceProcess]]:
    """Each process on a card or its instances with the UUID of what it occupies."""
    for process in gpu.processes or ():
        yield gpu.uuid, process
    for instance in gpu.mig_instances:
        for process in instance.processes or ():
            yield instance.uuid, process


def _finish_card(
    gpu: contract.Gpu,
    listed: tuple[ListedGpu, ...],
    capabilities: Mapping[str, str],
    unit_of: Callable[[int], str | None],
) -> contract.Gpu:
    device_class = gpu_class.card_class(gpu.name, gpu.memory_total_mib)
    own = _listed(gpu, listed)
    return replace(
        gpu,
        device_class=device_class,
        form_factor=gpu_class.form_factor(gpu.name),
        unified_memory=_unified(gpu),
        compute_capability=gpu.compute_capability or capabilities.get(gpu.uuid or ""),
        processes=_owned(gpu.processes, unit_of),
        mig_instances=tuple(_finish_instance(instance, device_class, own, unit_of) for instance in gpu.mig_instances),
        fabric=_fabric(gpu.fabric),
    )


def _unified(gpu: contract.Gpu) -> bool | None:
    """Whether the card's memory is the host's: a matter of the product, and False only where a card has its own."""
    if gpu_class.is_unified(gpu.name):
        return True
    return False if gpu.memory_total_mib else None


def _fabric(fabric: contract.GpuFabric | None) -> contract.GpuFabric | None:
    """Status and domain count once the handshake is complete; before, what is there is left from another time (D7)."""
    if fabric is None or gpu_fabric.completed(fabric):
        return fabric
    return replace(fabric, status=None, cluster_uuid=None, clique_id=None)


def _listed(gpu: contract.Gpu, listed: tuple[ListedGpu, ...]) -> ListedGpu | None:
    return next((card for card in listed if gpu.uuid is not None and card.uuid == gpu.uuid), None)


def _finish_instance(
    instance: contract.MigInstance,
    parent_class: str | None,
    card: ListedGpu | None,
    unit_of: Callable[[int], str | None],
) -> contract.MigInstance:
    named = next((one for one in card.mig if one.index == instance.index), None) if card else None
    profile = instance.profile or (named.profile if named else None)
    return replace(
        instance,
        uuid=instance.uuid or (named.uuid if named else None),
        profile=profile,
        device_class=gpu_class.instance_class(parent_class, profile),
        processes=_owned(instance.processes, unit_of),
    )


def _owned(
    processes: tuple[contract.DeviceProcess, ...] | None, unit_of: Callable[[int], str | None]
) -> tuple[contract.DeviceProcess, ...] | None:
    if processes is None:
        return None
    return tuple(
        replace(process, name=process.name and quoting.quoted(process.name), unit=unit_of(process.pid))
        for process in processes
    )
