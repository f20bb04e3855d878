# SPDX-License-Identifier: Apache-2.0
"""Reads the bundle's fleet document, written by a controller of perhaps another version: any key may be absent (Q6).

What is absent or of another type than expected is None. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One card or MIG instance. `blocked_by`: codes of findings that keep it out of placement."""

    name: str | None
    device_class: str | None
    uuid: str | None
    memory_total_mib: int | None
    memory_used_mib: int | None
    blocked_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnitView:
    """One member of a replica as its node reported it."""

    name: str | None
    replica: str | None
    state: str | None
    port: int | None


@dataclass(frozen=True, slots=True)
class FindingView:
    """Something that a check found; `node` None: it is about the whole fleet."""

    code: str | None
    severity: str | None
    message: str | None
    node: str | None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node. `devices` None: not known, which is not the same as none."""

    name: str
    state: str | None
    address: str | None
    labels: dict[str, str]
    cordoned: bool | None
    drained: bool | None
    memory_total_bytes: int | None
    memory_available_bytes: int | None
    facts_age_s: float | None
    devices: tuple[DeviceView, ...] | None
    units: tuple[UnitView, ...]
    findings: tuple[FindingView, ...]


@dataclass(frozen=True, slots=True)
class FleetView:
    """The fleet at `taken_at`, in seconds of Unix time."""

    taken_at: float | None
    nodes: tuple[NodeView, ...]


def read_fleet(document: Document | None) -> FleetView:
    """The fleet document as far as it can be read; nodes sorted by name."""
    document = document or {}
    nodes = (_node(entry) for entry in _entries(document.get("nodes")))
    return FleetView(_number(document.get("taken_at")), tuple(sorted(filter(None, nodes), key=lambda node: node.name)))


def read_finding(entry: Document, node: str | None = None) -> FindingView:
    """One finding, of the fleet or of a node's list."""
    return FindingView(
        code=_text(entry.get("code")),
        severity=_text(entry.get("severity")),
        message=_text(entry.get("message")),
        node=node or _text(entry.get("node")),
        remedy=_text(entry.get("remedy")),
    )


def _node(entry: Document) -> NodeView | None:
    name = _text(entry.get("name"))
    if not name:
        return None
    labels = entry.get("labels")
    devices = entry.get("devices")
    return NodeView(
        name=name,
        state=_text(entry.get("state")),
        address=_text(entry.get("address")),
        labels={str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {},
        cordoned=_flag(entry.get("cordoned")),
        drained=_flag(entry.get("drained")),
        memory_total_bytes=_integer(entry.get("memory_total_bytes")),
        memory_available_bytes=_integer(entry.get("memory_available_bytes")),
        facts_age_s=_number(entry.get("facts_age_s")),
        devices=tuple(map(_device, _entries(devices))) if isinstance(devices, list) else None,
        units=tuple(map(_unit, _entries(entry.get("units")))),
        findings=tuple(read_finding(finding, name) for finding in _entries(entry.get("findings"))),
    )


def _device(entry: Document) -> DeviceView:
    blocked_by = entry.get("blocked_by")
    return DeviceView(
        name=_text(entry.get("name")),
        device_class=_text(entry.get("class")),
        uuid=_text(entry.get("uuid")),
        memory_total_mib=_integer(entry.get("memory_total_mib")),
        memory_used_mib=_integer(entry.get("memory_used_mib")),
        blocked_by=tuple(map(str, blocked_by)) if isinstance(blocked_by, list) else (),
    )


def _unit(entry: Document) -> UnitView:
    return UnitView(
        name=_text(entry.get("name")),
        replica=_text(entry.get("replica")),
        state=_text(entry.get("state")),
        port=_integer(entry.get("port")),
    )


def _entries(value: object) -> Iterator[Document]:
    if isinstance(value, list | tuple):
        yield from (entry for entry in value if isinstance(entry, dict))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
