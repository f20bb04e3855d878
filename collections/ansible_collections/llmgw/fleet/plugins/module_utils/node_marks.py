# SPDX-License-Identifier: BSD-2-Clause
"""The marks that keep a node, or some of its devices, out: cordoned, drained, quarantined (R11).

Private to llmgw. Each is a file of the state directory, and that it is there is the mark: what it holds only tells who
made it, when and why. Anything may have been written there by hand, so nothing of it is taken for a path.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, NodeMark, QuarantinedDevice
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.printable import printable
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.quoting import quoted

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

CORDONED, DRAINED, QUARANTINE = "cordoned", "drained", "quarantine"
LONGEST_FILE = 64 * 1024
LONGEST_TEXT = 500
MOST_DEVICES = 1000
"""More devices than any machine has."""
UNREADABLE = "mark-unreadable"
_LATEST = 10**12
# Whole cards and MIG instances; older drivers name an instance by its card and two numbers.
_DEVICE = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z-]{1,100}(?:/[0-9]{1,4}/[0-9]{1,4})?", re.ASCII)
_FILE = re.compile(r"((?:GPU|MIG)-[0-9A-Za-z-]{1,100})(?:_([0-9]{1,4})_([0-9]{1,4}))?\.json", re.ASCII)


class Marks(NamedTuple):
    """The marks of a node. `quarantined` None: the directory of these marks cannot be listed, or is none."""

    cordoned: bool = False
    drained: bool = False
    cordon: NodeMark | None = None
    drain: NodeMark | None = None
    quarantined: tuple[QuarantinedDevice, ...] | None = ()
    findings: tuple[Finding, ...] = ()


def file_name(device: str) -> str | None:
    """Name of the file that quarantines a device; None for what is no UUID of one."""
    return f"{device.replace('/', '_')}.json" if _DEVICE.fullmatch(device) else None


def device_of(name: str) -> str | None:
    """The device that a file of this name quarantines; None for any other file."""
    found = _FILE.fullmatch(name)
    if found is None:
        return None
    uuid, first, second = found.groups()
    return uuid if first is None else f"{uuid}/{first}/{second}"


def read(host: Host, state_dir: str, present: tuple[str, ...]) -> Marks:
    """The marks in a state directory; `present` are the names of what is in it. Never raises for what files hold."""
    findings: list[Finding] = []
    cordon = _node_mark(host, f"{state_dir}/{CORDONED}", findings) if CORDONED in present else None
    drain = _node_mark(host, f"{state_dir}/{DRAINED}", findings) if DRAINED in present else None
    devices = _devices(host, f"{state_dir}/{QUARANTINE}", findings) if QUARANTINE in present else ()
    return Marks(CORDONED in present, DRAINED in present, cordon, drain, devices, tuple(findings))


def content(said: dict[str, Any]) -> bytes:
    """A mark as it is written."""
    return (json.dumps(said, sort_keys=True, indent=2) + "\n").encode("ascii")


def text_of(said: Any, longest: int = LONGEST_TEXT) -> str | None:
    """A text as one short line that can be shown, without signs that a terminal acts on; None when it is none."""
    if not isinstance(said, str):
        return None
    shown = (sign for sign in printable(said[: 4 * longest]) if sign.isprintable() or sign.isspace())
    return quoted(" ".join("".join(shown).split()), longest) or None


def document(host: Host, path: str) -> dict[str, Any] | None:
    """What a mark's file holds; nothing for an empty one, None where it cannot be told."""
    found = host.read(path, LONGEST_FILE + 1)
    if found is None or len(found) > LONGEST_FILE:
        return None
    if not found.strip():
        return {}
    try:
        said = json.loads(found.decode("utf-8"))
    except (ValueError, RecursionError):  # any bytes may lie there, deeply nested ones too
        return None
    return said if isinstance(said, dict) else None


def _node_mark(host: Host, path: str, findings: list[Finding]) -> NodeMark:
    said = document(host, path)
    if said is None:
        findings.append(_unreadable(path, "the node", "llmgw nodes uncordon or undrain takes it away"))
    said = said or {}
    return NodeMark(text_of(said.get("by")), _moment(said.get("at")), text_of(said.get("reason")))


def _devices(host: Host, directory: str, findings: list[Finding]) -> tuple[QuarantinedDevice, ...] | None:
    names = host.list(directory)
    if names is None:
        if host.is_directory(directory):
            why, remedy = "cannot be listed", "Run discovery as a user that may list it (become: true)."
        else:
            why, remedy = "is no directory", "Move it away, or mount what its link leads to."
        message = f"{printable(directory)} {why}: which devices are quarantined is unknown"
        findings.append(Finding(UNREADABLE, "warn", message, remedy))
        return None
    marked = [(name, device) for name, device in zip(names, map(device_of, names)) if device is not None]
    return tuple(
        _device(host, f"{directory}/{name}", device, findings) for name, device in sorted(marked)[:MOST_DEVICES]
    )


def _device(host: Host, path: str, device: str, findings: list[Finding]) -> QuarantinedDevice:
    said = document(host, path)
    if said is None:
        findings.append(_unreadable(path, device, "llmgw nodes clear takes it away"))
    said = said or {}
    return QuarantinedDevice(
        device,
        text_of(said.get("code")) or "",
        text_of(said.get("message")) or "",
        _moment(said.get("since")),
        text_of(said.get("by")),
    )


def _moment(said: Any) -> float | None:
    return float(said) if isinstance(said, (int, float)) and not isinstance(said, bool) and 0 < said < _LATEST else None


def _unreadable(path: str, what: str, how: str) -> Finding:
    return Finding(
        code=UNREADABLE,
        severity="info",
        message=f"{printable(path)} marks {what} and cannot be read: the mark counts, who made it and why is unknown",
        remedy=f"Nothing while the mark is meant; {how}.",
    )
