# SPDX-License-Identifier: BSD-2-Clause
"""The network interfaces that have addresses, and how fast they are (D10).

Private to llmgw. Engines on several nodes are told by which interface they reach each other, and that is the one with
the node's address. Interfaces without an address of their own are left out: a host of containers has hundreds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import NetworkInterface
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import ip_addresses
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_COMMAND = ("ip", "-j", "address")
_IP_S = 5.0
_NAME = re.compile(r"[^/\s]{1,15}")
_LINK_LOCAL = "link"


def read_interfaces(host: Host) -> tuple[NetworkInterface, ...] | None:
    """The interfaces with an address that other hosts or this one can use, by name; None when nothing tells them."""
    answer = host.run(_COMMAND, _IP_S)
    if answer.rc != 0:
        return None
    try:
        found = ip_addresses.read(answer.stdout).interfaces
    except Unreadable:
        return None
    interfaces = (_interface(host, one) for one in found if _NAME.fullmatch(one.name))
    return tuple(sorted((one for one in interfaces if one.addresses), key=lambda one: one.name))


def _interface(host: Host, one: ip_addresses.Interface) -> NetworkInterface:
    addresses = sorted({each.address for each in one.addresses if each.scope != _LINK_LOCAL})
    speed = _speed(host, one.name) if addresses else None
    return NetworkInterface(one.name, tuple(addresses), one.up, speed)


def _speed(host: Host, name: str) -> int | None:
    """Mbit/s, as the kernel has it; virtual interfaces and those without a carrier have none, or -1."""
    text = (host.read(f"/sys/class/net/{name}/speed") or b"").decode("ascii", "replace").strip()
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,8}", text) else None
