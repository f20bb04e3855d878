# SPDX-License-Identifier: Apache-2.0
"""The fleet as one JSON document: what gateways export and show (R11, G9, G10). What is unknown is null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from llmgw.fleet.domains import is_joined, key_of
from llmgw.fleet.unknown_ports import is_unknown
from llmgw.fleet.unplaced import unplaced
from llmgw.fleet.usage import holders
from llmgw.model.fabric import DomainMember, Fabric, FabricPort, NvlinkDomain, Verdict
from llmgw.model.node import Device, FleetSnapshot, Node
from llmgw.nodekit import contract

FLEET_FORMAT = 1


def fleet_document(fleet: FleetSnapshot, *, full: bool = False) -> dict[str, Any]:
    """`{"format_version", "taken_at", "nodes": [...], "fabrics": [...], "domains": [...]}`; each sorted by name.

    `full` adds what gateways do not need: what holds each device, who marked what and why, and remedy and evidence of
    each finding.
    """
    return {
        "format_version": FLEET_FORMAT,
        "taken_at": fleet.taken_at,
        "nodes": [_node(node, full=full) for node in fleet.nodes],
        "fabrics": [_fabric(fabric) for fabric in fleet.fabrics],
        "domains": [_domain(domain) for domain in fleet.domains],
    }


def _node(node: Node, *, full: bool) -> dict[str, Any]:
    facts = node.facts
    held_by = holders(facts) if full and facts else None
    memory = facts.memory if facts else None
    filesystems = facts.filesystems if facts else None
    marks = {"marks": None if facts is None else _marks(facts)} if full else {}
    return {
        "name": node.name,
        "state": node.state.value,
        "address": node.address,
        "labels": dict(sorted(node.labels.items())),
        "cordoned": node.cordoned,
        "drained": node.drained,
        **marks,
        "memory_total_bytes": memory.total_bytes if memory else None,
        "memory_available_bytes": memory.available_bytes if memory else None,
        "devices": None if node.devices is None else [_device(device, node, held_by) for device in node.devices],
        "unplaceable": None if facts is None else _unplaceable(facts),
        "filesystems": None if filesystems is None else [asdict(one) for one in filesystems],
        "ports": None if node.ports is None else [_port(port) for port in node.ports if _usable(port)],
        "ports_unknown": None if node.ports is None else sum(map(is_unknown, node.ports)),
        "domain": None if node.domain is None else _member(node.domain),
        "units": None if facts is None or facts.units is None else [_unit(unit) for unit in facts.units],
        "facts_age_s": node.facts_age_s,
        "oldest_age_s": node.oldest_age_s,
        "stale": node.stale,
        "unreachable_since": node.unreachable_since,
        "findings": [_finding(one, full=full) for one in node.findings],
    }


def _marks(facts: contract.NodeFacts) -> dict[str, Any]:
    """The marks on the node itself; host variables make none."""
    devices = facts.quarantined
    return {
        "cordoned": asdict(facts.cordon_mark or contract.NodeMark()) if facts.cordoned else None,
        "drained": asdict(facts.drain_mark or contract.NodeMark()) if facts.drained else None,
        "quarantined": None if devices is None else [asdict(one) for one in devices],
    }


def _device(device: Device, node: Node, held_by: Mapping[str, str] | None) -> dict[str, Any]:
    told = {
        "name": device.display_name,
        "class": device.device_class,
        "uuid": device.uuid,
        "memory_total_mib": device.memory_total_mib,
        "memory_used_mib": _used(device, node),
        "blocked_by": [finding.code for finding in device.blocked_by],
        "kept_away_by": [finding.code for finding in device.kept_away_by],
        "joined": None if key_of(device.fabric) is None else is_joined(device.fabric),
    }
    return told if held_by is None else {**told, "held_by": held_by.get(device.uuid)}


def _unplaceable(facts: contract.NodeFacts) -> list[dict[str, Any]] | None:
    found = unplaced(facts)
    if found is None:
        return None
    return [
        {
            "name": one.display_name,
            "class": one.device_class,
            "uuid": one.uuid,
            "pci_address": one.pci_address,
            "blocked_by": [finding.code for finding in one.reasons],
            "why": one.why,
        }
        for one in found
    ]


def _finding(one: contract.Finding, *, full: bool) -> dict[str, Any]:
    told = {"code": one.code, "severity": one.severity, "message": one.message, "subject": one.subject}
    return {**told, "remedy": one.remedy, "evidence": list(one.evidence)} if full else told


def _used(device: Device, node: Node) -> int | None:
    for gpu in (node.facts.gpus or ()) if node.facts else ():
        if gpu.uuid == device.uuid:
            return gpu.memory_used_mib
        for instance in gpu.mig_instances:
            if instance.uuid == device.uuid:
                return instance.memory_used_mib
    return None


def _usable(port: FabricPort) -> bool:
    """Whether engines may use a port: the others may be hundreds of virtual functions."""
    return port.verdict is not Verdict.EXCLUDED


def _port(port: FabricPort) -> dict[str, Any]:
    return {
        "name": port.name,
        "kind": port.kind,
        "rate_gbps": port.rate_gbps,
        "fabric": port.fabric,
        "verdict": port.verdict.value,
    }


def _fabric(fabric: Fabric) -> dict[str, Any]:
    return {
        "name": fabric.name,
        "kind": fabric.kind,
        "declared": fabric.declared,
        "rails": fabric.rails,
        "verdict": fabric.verdict.value,
        "nodes": [
            {"name": member.node, "ports": len(member.ports), "verdict": member.verdict.value}
            for member in fabric.members
        ],
        "fingerprint": list(fabric.fingerprint),
        "notes": list(fabric.notes),
    }


def _domain(domain: NvlinkDomain) -> dict[str, Any]:
    return {
        "name": domain.name,
        "cluster_uuid": domain.cluster_uuid,
        "clique_id": domain.clique_id,
        "nodes": [member.node for member in domain.members],
        "ready": list(domain.ready),
    }


def _member(member: DomainMember) -> dict[str, Any]:
    return {
        "name": member.domain,
        "cards": member.cards,
        "joined": member.joined,
        "degraded": member.degraded,
        "imex_up": member.imex_up,
        "ready": member.ready,
        "kept_out": list(member.kept_out),
    }


def _unit(unit: Any) -> dict[str, Any]:
    return {"name": unit.name, "replica": unit.replica, "state": unit.active_state, "port": unit.port}
