# SPDX-License-Identifier: BSD-2-Clause
"""Reads a dump of /sys/class/infiniband: one line `path: text of the file` for each file, as `grep -r .` prints it.

Private to llmgw and pure. A file below a folder of its port or device (`counters/link_downed`, `gids/0`) keeps that
part of its path in its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

ACTIVE = 4
_PORTS = "ports"
_FOLDER = "infiniband/"
_FILE = re.compile(r"(?P<device>[^/\s:]+)/(?P<file>[^\s:]+)\s*:(?P<value>.*)")
# From within the folder; a colon after any two words with a slash would be prose.
_SHORT = re.compile(
    r"(?:\./)?(?P<device>[^/\s:]+)/"
    r"(?P<file>ports/[0-9]+/[^\s:]+|board_id|fw_ver|hca_type|hw_rev|node_[a-z]+|sys_image_guid)\s*:(?P<value>.*)"
)
_PORT_FILE = re.compile(r"ports/(?P<port>[0-9]{1,4})/(?P<file>.+)")
_RATE = re.compile(r"\W*?(?<![-.])(?P<number>[0-9]{1,6}(?:\.[0-9]{1,6})?)(?=\s*(?:G|\(|\W*\Z))", re.IGNORECASE)
_LONGEST_RATE = 60
_STATE = re.compile(r"\s*(?P<number>[0-9]{1,3})\s*(?::\s*(?P<word>.*))?", re.DOTALL)


@dataclass(frozen=True)
class SysfsIb:
    """Device to attribute file to text; under `ports` port number to attribute file to text, `rate_gbps`, `active`."""

    devices: dict[str, dict[str, Any]]


def read(text: str) -> SysfsIb:
    """The reading. Raises Unreadable when no line names a file below an adapter."""
    lines = text.splitlines()
    found = [file for file in map(_below_class, lines) if file] or [
        file for file in (_SHORT.fullmatch(line.strip()) for line in lines) if file
    ]
    if not found:
        raise Unreadable("no line '/sys/class/infiniband/DEVICE/FILE: ...'")
    devices: dict[str, dict[str, Any]] = {}
    for line in found:
        device = devices.setdefault(line.group("device"), {_PORTS: {}})
        value = line.group("value").strip()
        of_port = _PORT_FILE.fullmatch(line.group("file"))
        if of_port is not None:
            files = device[_PORTS].setdefault(of_port.group("port"), {})
            files.setdefault(of_port.group("file"), value)
        elif line.group("file") != _PORTS:
            device.setdefault(line.group("file"), value)
    for device in devices.values():
        for files in device[_PORTS].values():
            files.update(_told_by(files))
    return SysfsIb(devices)


def _below_class(line: str) -> re.Match[str] | None:
    """Device, file and value of a line. A path through /sys/devices holds PCI addresses, and so colons, before them."""
    before, folder, after = line.strip().partition(_FOLDER)
    is_path = folder and (not before or before.endswith("/")) and len(before.split()) <= 1
    return _FILE.fullmatch(after) if is_path else None


def _told_by(files: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if "rate" in files:
        told["rate_gbps"] = rate_gbps(files["rate"])
    if "state" in files:
        told["active"] = is_active(files["state"])
    return told


def rate_gbps(text: str) -> float | None:
    """Gb/s of `400 Gb/sec (4X NDR)`: its first number; None for a text that does not begin with one."""
    found = _RATE.match(text.strip()[:_LONGEST_RATE])
    return float(found.group("number")) if found else None


def is_active(text: str) -> bool | None:
    """Whether a state (`4: ACTIVE`) is the one that carries traffic, by its number; None without a number."""
    number = numbered(text)[0]
    return None if number is None else number == ACTIVE


def numbered(text: str) -> tuple[int | None, str | None]:
    """Number and word of `4: ACTIVE` or `5: LinkUp`; a text without a number is a word."""
    found = _STATE.fullmatch(text)
    if found is None:
        return None, text.strip() or None
    return int(found.group("number")), (found.group("word") or "").strip() or None
