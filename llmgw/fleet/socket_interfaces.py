# SPDX-License-Identifier: Apache-2.0
"""By which network interface the members of a replica on several nodes reach a node (P5)."""

from __future__ import annotations

import ipaddress
import re

from llmgw.model.node import Node

INTERFACE_NAME = re.compile(r"[^\s/,=^:]{1,15}")
"""A name that the kernel and NCCL both take: at most 15 characters, and none that NCCL gives a meaning to."""


def socket_interface(node: Node) -> str | None:
    """The interface that the inventory names (`llmgw_socket_interface`), else the one that holds the node's address.

    None where neither is known: the node reports no interface, its address is a name, or no interface has it.
    """
    if node.settings.socket_interface is not None:
        return node.settings.socket_interface
    system = node.facts.system if node.facts else None
    address = _address(node.address)
    for interface in (system.interfaces or ()) if system and address else ():
        if any(_address(one) == address for one in interface.addresses) and INTERFACE_NAME.fullmatch(interface.name):
            return interface.name
    return None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
