# SPDX-License-Identifier: Apache-2.0
"""What a machine of the showcase shows of the units that it runs: their processes, and the heat that these make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from llmgw.nodekit import contract
from tests.support.showcase.invented import DAY, GB, NOW, between

_PROCESS = {"vllm": ("VLLM::EngineCore", "VLLM::Worker_TP"), "sglang": ("sglang::scheduler", "sglang::scheduler_TP")}
_REPORT = contract.EngineMemory(
    weights_mib=33_690, kv_cache_mib=36_870, kv_cache_tokens=471_930, graphs_mib=1_180, source="vllm 0.33.0"
)
_REPORTING = ("chat-70b/0", "chat-70b/3")
"""Replicas whose engine's start is still in the journal."""
_SHARE = {"vllm": 90, "sglang": 88}


def at_work(facts: contract.NodeFacts) -> contract.NodeFacts:
    """The facts with processes on the devices that units hold, and all that follows from them."""
    units = tuple(sorted((_running(unit) for unit in facts.units or ()), key=lambda unit: unit.name))
    memory = facts.memory
    if memory is not None and memory.available_bytes is not None and memory.total_bytes is not None:
        used = sum(unit.memory_bytes or 0 for unit in units)
        memory = replace(memory, available_bytes=max(memory.total_bytes // 20, memory.available_bytes - used))
    system = facts.system
    if system is not None:
        own = sorted({*(system.listening_ports or ()), *(unit.port for unit in units if unit.port)})
        system = replace(system, listening_ports=tuple(own))
    gpus = None if facts.gpus is None else tuple(_card(gpu, units) for gpu in facts.gpus)
    return replace(facts, units=units, memory=memory, system=system, gpus=gpus)


def pid_of(unit: contract.ObservedUnit) -> int:
    """The main process of a unit."""
    return between(2_000, 3_900_000, unit.name, unit.address, "pid")


def _running(unit: contract.ObservedUnit) -> contract.ObservedUnit:
    return replace(
        unit,
        result="success",
        enabled=True,
        since=NOW - between(1, 28, unit.name, "since") * DAY / 2 - between(0, 40_000, unit.name, "second"),
        restarts=0,
        main_pid=pid_of(unit),
        memory_bytes=_memory(unit),
        ready=True if unit.rank == 0 else None,
        needs_reload=False,
        memory_report=_REPORT if unit.replica in _REPORTING and unit.rank == 0 else None,
    )


def _memory(unit: contract.ObservedUnit) -> int:
    if unit.engine == "llama.cpp":
        return (unit.memory_min_bytes or 0) * 9 // 10
    return between(9, 14, unit.name, unit.address, "memory") * GB * max(1, len(unit.devices))


def _card(gpu: contract.Gpu, units: Iterable[contract.ObservedUnit]) -> contract.Gpu:
    if gpu.mig_mode:
        instances = tuple(_instance(instance, units) for instance in gpu.mig_instances)
        busy = sum(bool(instance.processes) for instance in instances)
        heat = gpu.temperature_c and gpu.temperature_c + 3 * busy
        return replace(gpu, mig_instances=instances, temperature_c=heat, throttle_reasons=() if busy else ("gpu_idle",))
    unit, rank = _holder(gpu.uuid, units)
    if unit is None or gpu.memory_total_mib is None or gpu.power_limit_w is None or gpu.temperature_c is None:
        return gpu
    process = _process(unit, rank, gpu.memory_total_mib)
    return replace(
        gpu,
        processes=(process,),
        memory_used_mib=(process.used_mib or 0) + (gpu.memory_used_mib or 0),
        utilization_percent=between(35, 97, gpu.uuid, "busy"),
        temperature_c=gpu.temperature_c + between(14, 32, gpu.uuid, "heat"),
        power_draw_w=round(gpu.power_limit_w * between(45, 88, gpu.uuid, "power") / 100, 1),
        throttle_reasons=(),
    )


def _instance(instance: contract.MigInstance, units: Iterable[contract.ObservedUnit]) -> contract.MigInstance:
    unit, rank = _holder(instance.uuid, units)
    if unit is None or instance.memory_total_mib is None:
        return instance
    process = _process(unit, rank, instance.memory_total_mib)
    used = (process.used_mib or 0) + (instance.memory_used_mib or 0)
    return replace(instance, processes=(process,), memory_used_mib=used)


def _holder(uuid: str | None, units: Iterable[contract.ObservedUnit]) -> tuple[contract.ObservedUnit | None, int]:
    for unit in units:
        if uuid in unit.devices:
            return unit, unit.devices.index(uuid or "")
    return None, 0


def _process(unit: contract.ObservedUnit, place: int, total_mib: int) -> contract.DeviceProcess:
    alone, of_many = _PROCESS[unit.engine or "vllm"]
    several = len(unit.devices) > 1
    rank = (unit.rank or 0) * len(unit.devices) + place
    return contract.DeviceProcess(
        pid=pid_of(unit) + 40 + 7 * place,
        name=f"{of_many}{rank}" if several else alone,
        used_mib=total_mib * _SHARE[unit.engine or "vllm"] // 100,
        unit=unit.name,
        kind="C",
    )
