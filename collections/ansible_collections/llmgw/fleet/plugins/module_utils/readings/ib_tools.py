# SPDX-License-Identifier: BSD-2-Clause
"""Reads what infiniband-diags print about a subnet: `sminfo`, `smpquery nodeinfo`, `ibnetdiscover -p`.

Private to llmgw and pure. GUIDs are `0x` and 16 digits, whichever way the tool writes them.
"""

from __future__ import annotations

import re

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

_SUBNET_MANAGER = re.compile(r"\bsm\s+guid\s+(?P<guid>0x[0-9a-f]{1,16})\b", re.IGNORECASE)
_FIELD = re.compile(r"^(?P<name>[A-Za-z]+):\.*(?P<value>.*)$", re.MULTILINE)
# Type, LID, port number, GUID of a port, and the same of the port at the other end; names that follow are anybody's.
# `-H` lists adapters by the GUID of the node, which a two-port adapter shows in either of its subnets; only the port's
# own GUID proves a port.
_PORTS = re.compile(
    r"^(?P<type>CA|SW|RT|\?\?)\s+[0-9]+\s+[0-9]+\s+(?P<guid>0x[0-9a-fA-F]{1,16})\s+\S+\s+\S+"
    r"(?:\s+-\s+(?P<far_type>CA|SW|RT|\?\?)\s+[0-9]+\s+[0-9]+\s+(?P<far_guid>0x[0-9a-fA-F]{1,16})\b)?",
    re.MULTILINE,
)
_ADAPTER = "CA"


def subnet_manager(text: str) -> str:
    """Port GUID of the subnet manager, from `sminfo`. Raises Unreadable."""
    found = _SUBNET_MANAGER.search(text)
    if found is None or int(found.group("guid"), 16) == 0:
        raise Unreadable("no 'sm guid' in the answer of sminfo")
    return guid(found.group("guid"))


def neighbour_switch(text: str) -> str | None:
    """GUID of the switch that `smpquery -D nodeinfo 0,PORT` describes; None for another adapter. Raises Unreadable."""
    fields = {field.group("name").lower(): field.group("value").strip() for field in _FIELD.finditer(text)}
    kind, number = fields.get("nodetype"), fields.get("guid") or fields.get("nodeguid") or ""
    if kind is None or not re.fullmatch(r"0x[0-9a-fA-F]{1,16}", number):
        raise Unreadable("no NodeType and Guid in the answer of smpquery")
    return guid(number) if kind.lower() in {"switch", "2"} else None


def adapter_ports(text: str) -> tuple[str, ...]:
    """Port GUIDs of all adapters in the subnet, sorted, from `ibnetdiscover -p`. Raises Unreadable without any."""
    found: set[str] = set()
    for ports in _PORTS.finditer(text):
        found.update([guid(ports.group("guid"))] if ports.group("type") == _ADAPTER else [])
        found.update([guid(ports.group("far_guid"))] if ports.group("far_type") == _ADAPTER else [])
    if not found:
        raise Unreadable("no line of a CA in the answer of ibnetdiscover")
    return tuple(sorted(found))


def guid(text: str) -> str:
    """A GUID as `0x` and 16 digits, from `0x2c9...`, `b83f:d203:...` or plain digits."""
    return f"0x{int(text.replace(':', ''), 16):016x}"
