# SPDX-License-Identifier: Apache-2.0
"""Facts as text: one node in full, or a table of the fleet. What is unknown is shown as `-` (V1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from llmgw.fleet.devices import devices_of
from llmgw.model.node import FleetSnapshot, Node
from llmgw.nodekit import contract

GB = 10**9
MIB = 2**20


def table_lines(fleet: FleetSnapshot) -> list[str]:
    """One row a node: state, devices by class, memory free/total, units, age of the facts, findings."""
    rows: list[tuple[str, ...]] = [("NODE", "STATE", "DEVICES", "MEM", "DISK", "ENGINES", "UNITS", "AGE", "FINDINGS")]
    rows += [_row(node) for node in fleet.nodes]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(node: Node) -> tuple[str, ...]:
    facts = node.facts
    marks = [word for word, on in (("cordoned", node.cordoned), ("drained", node.drained)) if on]
    return (
        node.name,
        ",".join([node.state.value, *marks]),
        devices_cell(facts),
        memory_cell(facts.memory if facts else None),
        disk_cell(facts.filesystems if facts else None),
        "-"
        if facts is None or facts.engines is None
        else ",".join(sorted(one.kind for one in facts.engines)) or "none",
        "-" if facts is None or facts.units is None else str(len(facts.units)),
        "-" if node.facts_age_s is None else _age(node.facts_age_s),
        str(len(node.findings)) if node.findings else "",
    )


def devices_cell(facts: contract.NodeFacts | None) -> str:
    """`8 x h200-141g`, `none`, or `-` when unknown; MIG instances count as their class."""
    devices = devices_of(facts) if facts else None
    if devices is None:
        return "-"
    counts = Counter(device.device_class for device in devices)
    return ", ".join(f"{count} x {name}" for name, count in sorted(counts.items())) or "none"


def memory_cell(memory: contract.Memory | None) -> str:
    """`12/16 GB`: available of total, rounded; `-` when unknown."""
    if memory is None or memory.total_bytes is None:
        return "-"
    free = "-" if memory.available_bytes is None else f"{memory.available_bytes / GB:.0f}"
    return f"{free}/{memory.total_bytes / GB:.0f} GB"


def disk_cell(filesystems: Sequence[contract.Filesystem] | None) -> str:
    """Free of total over the node's own filesystems, shared ones left out (D11)."""
    own = [
        one
        for one in filesystems or ()
        if one.shared is not True and one.total_bytes is not None and one.free_bytes is not None
    ]
    if not own:
        return "-"
    return f"{sum(one.free_bytes or 0 for one in own) / GB:.0f}/{sum(one.total_bytes or 0 for one in own) / GB:.0f} GB"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def node_lines(name: str, facts: contract.NodeFacts) -> list[str]:
    """Everything a scheduler would ask of one node."""
    return list(_node(name, facts))


def _node(name: str, facts: contract.NodeFacts) -> Iterator[str]:
    system, cpu = facts.system or contract.System(), facts.cpu or contract.Cpu()
    yield name
    os_name = f"{_or(system.os)} {_or(system.os_version)}"
    yield f"  system    {os_name}, kernel {_or(system.kernel)}, systemd {_or(system.systemd_version)}"
    counts = f"{_or(cpu.sockets)} sockets, {_or(cpu.cores)} cores, {_or(cpu.threads)} threads"
    yield f"  cpu       {_or(cpu.model)}: {counts}"
    yield f"  memory    {memory_cell(facts.memory)} available"
    yield f"  devices   {devices_cell(facts)}"
    for device in devices_of(facts) or ():
        blocked = f"  OUT: {device.blocked_by[0].message}" if device.blocked_by else ""
        memory = _or(device.memory_total_mib)
        yield f"    {device.display_name:<8} {device.device_class:<28} {memory} MiB  {device.uuid}{blocked}"
    for filesystem in facts.filesystems or ():
        kind = {True: "shared", False: "local", None: "shared or local unknown"}[filesystem.shared]
        yield f"  disk      {filesystem.mount_point} ({_or(filesystem.type)}, {kind}): {disk_of(filesystem)} free"
    for engine in facts.engines or ():
        state = {True: "runs", False: f"does not run: {engine.reason}", None: "not tried"}[engine.runnable]
        yield f"  engine    {engine.kind} {_or(engine.version)} at {' '.join(engine.command)}: {state}"
    for weights in facts.weights or ():
        whole = {True: "complete", False: "incomplete", None: "completeness unknown"}[weights.complete]
        size = "-" if weights.size_bytes is None else f"{weights.size_bytes / GB:.2f} GB"
        yield f"  weights   {weights.model}: {size}, {whole}, {weights.path}"
    for unit in facts.units or ():
        yield f"  unit      {unit.name}: {_or(unit.active_state)}/{_or(unit.sub_state)}, port {_or(unit.port)}"
    for finding in facts.findings:
        remedy = f" -> {finding.remedy}" if finding.remedy else ""
        yield f"  {finding.severity:<9} {finding.code}: {finding.message}{remedy}"


def disk_of(filesystem: contract.Filesystem) -> str:
    """`12/80 GB`, or `-` when unknown."""
    if filesystem.total_bytes is None or filesystem.free_bytes is None:
        return "-"
    return f"{filesystem.free_bytes / GB:.0f}/{filesystem.total_bytes / GB:.0f} GB"


def _or(value: object) -> str:
    return "-" if value is None else str(value)
