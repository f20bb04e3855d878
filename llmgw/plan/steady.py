# SPDX-License-Identifier: Apache-2.0
"""What a plan is made from of a host's facts, by part: what tells whether a saved plan is still true (R9). Pure.

Only what stays the same from one look to the next unless something happened. Free bytes, used memory, temperatures,
process ids, restarts, times and the words of findings are left out: where one of them changes a decision, the plan
itself comes out different.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Any

from llmgw.fleet.hosts import Stored
from llmgw.nodekit import contract, unitchange

ANSWERS = "answers"


def _all_of(kind: Any, *but: str) -> Callable[[Any], Any]:
    """Reads every field of a dataclass of the contract but these."""
    return attrgetter(*(one.name for one in fields(kind) if one.name not in but))


_CARD = attrgetter(
    "index",
    "uuid",
    "name",
    "device_class",
    "pci_address",
    "compute_capability",
    "memory_total_mib",
    "unified_memory",
    "mig_mode",
    "vulkan_index",
)
_INSTANCE = _all_of(contract.MigInstance, "memory_used_mib", "processes", "ecc")
_PLACE = attrgetter("uuid", "index", "numa_node", "cpu_affinity", "memory_numa_node", "nvlink_links", "nvlink_gbps")
_PEER = _all_of(contract.NvlinkPeer)
_ADAPTER = _all_of(contract.NicPath)
_FABRIC = _all_of(contract.GpuFabric)
_DRIVER = attrgetter("driver_version", "cuda_version")
_IMEX = _all_of(contract.Imex, "nodes")
_IMEX_NODE = _all_of(contract.ImexNode)
_PORT = _all_of(contract.RdmaPort, "gid_table", "link_downed", "symbol_errors")
_GID = _all_of(contract.RdmaGid)
_DISK = _all_of(contract.Filesystem, "total_bytes", "free_bytes")
"""Without the total: on filesystems that share one pool it moves with what others take."""
_WEIGHTS = _all_of(contract.Weights, "architecture", "missing", "missing_count")
_WEIGHTS_IN_PART = attrgetter("model", "path", "revision", "complete")
"""What comes in grows from look to look; it counts when it is complete."""
_ARCHITECTURE = _all_of(contract.ModelArchitecture)
_ENGINE = _all_of(contract.Engine, "reason")
_UNIT = attrgetter(
    "name",
    "replica",
    "rank",
    "members",
    "profile",
    "model",
    "engine",
    "served_name",
    "address",
    "port",
    "devices",
    "process_digest",
    "running_digest",
    "text_digest",
    "actual_text_digest",
    "enabled",
    "edited",
    "needs_reload",
)
_SYSTEM = attrgetter("hostname", "systemd_version", "scope", "journal", "ephemeral_ports")
_INTERFACE = attrgetter("name", "addresses")
_MARK = attrgetter("device", "code")
_BUNDLE = attrgetter("path", "generation", "routes_digest")
_SEARCH = "weights"
"""The part of discovery whose findings tell that a search for weights fell short."""


def parts(stored: Stored) -> dict[str, Any]:
    """What is known of a host as JSON values, by part: words that people read. What is unknown is None. A host without
    facts has one part alone.
    """
    answers = {ANSWERS: stored.unreachable_since is None}
    return answers if stored.facts is None else answers | dict(_parts(stored.facts))


def _parts(facts: contract.NodeFacts) -> Iterator[tuple[str, Any]]:
    yield "devices", _each(facts.gpus, lambda gpu: (_CARD(gpu), _each(gpu.mig_instances, _INSTANCE)))
    yield "health", sorted({(one.code, one.subject or "") for one in facts.findings if one.severity == "block"})
    yield "topology", _each(facts.gpus, _topology)
    yield "NVLink", _each(facts.gpus, lambda gpu: (gpu.uuid, gpu.fabric and _FABRIC(gpu.fabric)))
    yield "driver", facts.driver and _DRIVER(facts.driver)
    yield "memory", facts.memory and facts.memory.total_bytes
    yield "disks", _each(facts.filesystems, _DISK)
    yield "fabric ports", _each(facts.rdma_ports, lambda port: (_PORT(port), _each(port.gid_table, _GID)))
    yield "IMEX", facts.imex and (_IMEX(facts.imex), _each(facts.imex.nodes, _IMEX_NODE))
    yield (
        "weights",
        (_each(facts.weights, _weights), sorted({one.code for one in facts.findings if one.part == _SEARCH})),
    )
    yield "engines", _each(facts.engines, _ENGINE)
    yield "other engines", _each(facts.foreign_engines, attrgetter("name", "devices"))
    yield "units", _each(facts.units, _unit)
    yield "marks", (facts.cordoned, facts.drained, _each(facts.quarantined, _MARK))
    yield "generation", facts.generation
    yield "boot", facts.system and facts.system.boot_id
    yield "system", facts.system and (_SYSTEM(facts.system), _each(facts.system.interfaces, _INTERFACE))
    yield "routes", facts.gateway and facts.gateway.bundle and _BUNDLE(facts.gateway.bundle)


def _each(entries: Iterable[Any] | None, read: Callable[[Any], Any]) -> list[Any] | None:
    """What is read of each, in an order of its own: discovery may tell the same in another."""
    return None if entries is None else sorted(map(read, entries), key=repr)


def _topology(gpu: contract.Gpu) -> Any:
    return _PLACE(gpu), _each(gpu.nvlink_peers, _PEER), _each(gpu.nic_paths, _ADAPTER)


def _weights(one: contract.Weights) -> Any:
    if one.complete is not True:
        return _WEIGHTS_IN_PART(one)
    return _WEIGHTS(one), one.architecture and _ARCHITECTURE(one.architecture)


def _unit(unit: contract.ObservedUnit) -> Any:
    return _UNIT(unit), unitchange.is_running(unit), unit.active_state == "failed"
