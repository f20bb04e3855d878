# SPDX-License-Identifier: Apache-2.0
"""The cards of a node as text: what can be placed on them, and everything that the driver says of each (D2-D7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llmgw.cli.cells import or_dash, plural, runs
from llmgw.cli.table import wrapped
from llmgw.fleet.devices import devices_of
from llmgw.fleet.unplaced import Unplaced, unplaced
from llmgw.fleet.usage import holders
from llmgw.model.node import Device
from llmgw.nodekit import contract

_WIDTH = 100
_INDENT = " " * 13
_IDLE = "gpu_idle"
"""Why clocks are low where nothing runs: it slows nothing."""
_DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")


def card_lines(facts: contract.NodeFacts, devices: Sequence[Device] | None = None) -> list[str]:
    """A line for each device, and below it the card's own lines. `devices`: as the fleet's snapshot has them."""
    held_by = holders(facts)
    known = devices if devices is not None else devices_of(facts) or ()
    by_uuid = {str(device.uuid): device for device in known}
    index = {gpu.uuid: gpu.index for gpu in facts.gpus or () if gpu.uuid}
    others = {one.display_name: one for one in unplaced(facts) or ()}
    return [line for gpu in facts.gpus or () for line in _card(gpu, by_uuid, others, held_by, index)]


def _card(
    gpu: contract.Gpu,
    devices: Mapping[str, Device],
    others: Mapping[str, Unplaced],
    held_by: Mapping[str, str],
    index: Mapping[str, int],
) -> Iterator[str]:
    device = devices.get(gpu.uuid or "")
    if device is not None:
        yield from _device(device, held_by)
    elif gpu.mig_mode:
        yield f"    {gpu.index:<8} {or_dash(gpu.device_class):<28} MIG mode, {gpu.uuid or or_dash(gpu.pci_address)}"
    elif str(gpu.index) in others:
        yield from _out(others[str(gpu.index)])
    for text in filter(None, (_meters(gpu), _wear(gpu), _place(gpu, index), _adapters(gpu), _fabric(gpu.fabric))):
        yield from wrapped(f"{_INDENT}{text}", _WIDTH, f"{_INDENT}  ")
    for instance in gpu.mig_instances:
        name = f"{gpu.index}/mig{instance.index}"
        found = devices.get(instance.uuid or "")
        if found is not None:
            yield from _device(found, held_by)
            if instance.memory_used_mib is not None:
                yield f"{_INDENT}{instance.memory_used_mib} MiB used"
        elif name in others:
            yield from _out(others[name])


def _out(card: Unplaced) -> Iterator[str]:
    """A card or instance that is no device: what is known of it, and why."""
    known = card.uuid or card.pci_address or "at an unknown address"
    yield from _stated(f"    {card.display_name:<8} {or_dash(card.device_class):<28} {known}", f"OUT: {card.why}")


def _device(device: Device, held_by: Mapping[str, str]) -> Iterator[str]:
    out = (*device.blocked_by, *device.kept_away_by)
    holder = held_by.get(device.uuid)
    state = f"OUT: {out[0].message}" if out else f"held by {holder}" if holder else ""
    memory = or_dash(device.memory_total_mib)
    line = f"    {device.display_name:<8} {device.device_class:<28} {memory} MiB  {device.uuid}"
    yield from _stated(line, state)


def _stated(line: str, state: str) -> Iterator[str]:
    if len(line) + len(state) <= _WIDTH - 2:
        yield f"{line}  {state}".rstrip()
    else:
        yield line
        yield from wrapped(f"{_INDENT}{state}", _WIDTH, f"{_INDENT}  ")


def _meters(gpu: contract.Gpu) -> str:
    power = or_dash(None if gpu.power_draw_w is None else f"{gpu.power_draw_w:.0f}")
    limit = "" if gpu.power_limit_w is None else f" of {gpu.power_limit_w:.0f}"
    slowed = [reason for reason in gpu.throttle_reasons or () if reason != _IDLE]
    parts = [
        None if gpu.memory_used_mib is None else f"{gpu.memory_used_mib} MiB used",
        "memory shared with the host" if gpu.unified_memory else None,
        None if gpu.utilization_percent is None else f"{gpu.utilization_percent} % busy",
        None if gpu.temperature_c is None else f"{gpu.temperature_c} C",
        None if gpu.power_draw_w is None and gpu.power_limit_w is None else f"{power}{limit} W",
        f"slowed by {', '.join(slowed)}" if slowed else None,
        "persistence mode off" if gpu.persistence_mode is False else None,
    ]
    return ", ".join(filter(None, parts))


def _wear(gpu: contract.Gpu) -> str:
    """Errors of memory, where there were any; a card without has no line."""
    ecc, remap = gpu.ecc or contract.Ecc(), gpu.remap or contract.Remap()
    counts = [
        (ecc.uncorrected_volatile, "uncorrected memory error", "since its driver started"),
        (ecc.uncorrected_aggregate, "uncorrected memory error", "in its life"),
        (remap.uncorrected_rows, "row", "replaced for uncorrected errors"),
        (remap.corrected_rows, "row", "replaced for corrected errors"),
        (remap.retired_pages, "page", "retired"),
    ]
    return ", ".join(f"{plural(count, word)} {when}" for count, word, when in counts if count)


def _place(gpu: contract.Gpu, index: Mapping[str, int]) -> str:
    numa = "" if gpu.numa_node is None else f"NUMA node {gpu.numa_node}"
    cpus = f"CPUs {gpu.cpu_affinity}" if gpu.cpu_affinity else ""
    links: dict[int | None, list[int]] = {}
    for peer in gpu.nvlink_peers or ():
        if peer.uuid in index:
            links.setdefault(peer.links, []).append(index[peer.uuid])
    over = [
        f"NVLink to {'card' if len(cards) == 1 else 'cards'} {runs(cards)}{f' ({count} links each)' if count else ''}"
        for count, cards in sorted(links.items(), key=lambda entry: entry[1])
    ]
    return ", ".join(filter(None, (numa, cpus, *over)))


def _adapters(gpu: contract.Gpu) -> str:
    near: dict[str, list[str]] = {}
    for path in gpu.nic_paths or ():
        near.setdefault(path.distance, []).append(path.device)
    ordered = sorted(near, key=lambda word: (_DISTANCES.index(word) if word in _DISTANCES else len(_DISTANCES), word))
    told = "; ".join(f"{word} {', '.join(near[word])}" for word in ordered)
    return f"adapters: {told}" if told else ""


def _fabric(fabric: contract.GpuFabric | None) -> str:
    if fabric is None or fabric.state is None:
        return ""
    words = [fabric.status, fabric.health_summary and f"health {fabric.health_summary}"]
    words += [fabric.bandwidth and f"bandwidth {fabric.bandwidth}", fabric.incorrect_configuration]
    return f"NVLink fabric: {', '.join(filter(None, (fabric.state, *words)))}"
