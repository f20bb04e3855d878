# SPDX-License-Identifier: BSD-2-Clause
"""Reads `ip -j address`: the network interfaces of a machine and their addresses (ip-address(8)).

Private to llmgw and pure. iproute2 prints JSON since 4.14; an older one prints an error, and nothing is known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Iterator, Optional, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable


@dataclass(frozen=True)
class Address:
    """An address without its prefix. `scope`: `global`, `host` (loopback), `link`; None where it is not told."""

    address: str
    scope: Optional[str] = None


@dataclass(frozen=True)
class Interface:
    """One interface. `up`: it is switched on and has a carrier; None where the flags are not told."""

    name: str
    up: Optional[bool] = None
    addresses: Tuple[Address, ...] = ()


@dataclass(frozen=True)
class Interfaces:
    """All interfaces in the order in which the kernel has them."""

    interfaces: Tuple[Interface, ...] = ()


def read(text: str) -> Interfaces:
    """What the text tells. Raises Unreadable when it is no JSON list of interfaces."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("it is no JSON") from None
    if not isinstance(document, list):
        raise Unreadable("it is no JSON list of interfaces")
    return Interfaces(tuple(_interfaces(document)))


def _interfaces(document: list[Any]) -> Iterator[Interface]:
    for entry in document:
        # Of an interface that is filtered out, some versions print an empty object.
        if isinstance(entry, dict) and isinstance(entry.get("ifname"), str):
            yield Interface(entry["ifname"], _up(entry.get("flags")), tuple(_addresses(entry.get("addr_info"))))


def _up(flags: Any) -> Optional[bool]:
    return {"UP", "LOWER_UP"}.issubset(map(str, flags)) if isinstance(flags, list) else None


def _addresses(listed: Any) -> Iterator[Address]:
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("local"), str):
            scope = entry.get("scope")
            yield Address(entry["local"], scope if isinstance(scope, str) else None)
