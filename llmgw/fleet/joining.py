# SPDX-License-Identifier: Apache-2.0
"""Joins facts that a refresh read in part with those stored before (D18). Pure.

What was not read stays as it was, with its findings and the time at which it was read. Hardware of another boot or
driver says nothing of this one and becomes unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from llmgw.nodekit import contract, parts

_FIELDS: dict[str, tuple[str, ...]] = {
    "system": ("system",),
    "memory": ("memory",),
    "cpu": ("cpu",),
    "units": ("units",),
    "state": (
        "generation",
        "applied_by",
        "applied_at",
        "cordoned",
        "drained",
        "cordon_mark",
        "drain_mark",
        "quarantined",
    ),
    "gpus": ("driver", "gpus", "foreign_engines"),
    "imex": ("imex",),
    "rdma": ("rdma_ports",),
    "storage": ("filesystems",),
    "weights": ("weights",),
    "engines": ("engines",),
    "gateway": ("gateway",),
}
"""Part to the fields of the facts that it fills. The parts below fill fields of other parts' entries."""
_OF_CARDS: dict[str, tuple[str, ...]] = {
    "topology": (
        "numa_node",
        "cpu_affinity",
        "memory_numa_node",
        "nvlink_peers",
        "nic_paths",
        "nvlink_links",
        "nvlink_links_active",
        "nvlink_gbps",
    ),
    "xids": ("xids",),
}
_OF_PORTS: dict[str, tuple[str, ...]] = {
    "subnets": ("sm_guids", "switch_guid", "subnet_digest", "subnet_port_count", "subnet_port_guids")
}


def joined(before: contract.NodeFacts | None, now: contract.NodeFacts) -> contract.NodeFacts:
    """`now` with the parts that it did not read taken from `before`; all parts are then known as well as they can be.

    Facts that were read whole are returned as they are.
    """
    if now.gathered is None or before is None:
        return now
    kept = _kept(before, now)
    values = {name: getattr(before, name) for part in kept for name in _FIELDS.get(part, ())}
    whole = replace(now, **values)
    return replace(
        whole,
        gpus=_carried(whole.gpus, before.gpus, _names(kept, _OF_CARDS), _card_identity),
        rdma_ports=_carried(whole.rdma_ports, before.rdma_ports, _names(kept, _OF_PORTS), _port_identity),
        findings=now.findings + tuple(one for one in before.findings if one.part in kept),
        probes=now.probes + tuple(one for one in before.probes if one.name in kept),
        gathered=None,
    )


def _kept(before: contract.NodeFacts, now: contract.NodeFacts) -> frozenset[str]:
    """The parts that the earlier facts still speak for."""
    kept = frozenset(parts.ALL) - frozenset(now.gathered or ())
    same = now.hardware_key is not None and before.hardware_key == now.hardware_key
    return kept if same else kept - frozenset(parts.HARDWARE)


def _names(kept: frozenset[str], table: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(name for part, names in table.items() if part in kept for name in names)


def _carried(entries: Any, before: Any, names: tuple[str, ...], identity: Any) -> Any:
    """The entries with these fields as the entry of the same identity had them; a new entry's stay unknown."""
    if not entries or not before or not names:
        return entries
    known = {identity(one): one for one in before if identity(one) is not None}
    return tuple(_filled(one, known.get(identity(one)), names) for one in entries)


def _filled(entry: Any, before: Any, names: Iterable[str]) -> Any:
    if before is None:
        return entry
    default = {field.name: field.default for field in fields(entry)}
    unknown = [name for name in names if getattr(entry, name) == default[name]]
    return replace(entry, **{name: getattr(before, name) for name in unknown})


def _card_identity(gpu: contract.Gpu) -> str | None:
    return gpu.uuid


def _port_identity(port: contract.RdmaPort) -> tuple[str, int]:
    return (port.device, port.port)
