# SPDX-License-Identifier: BSD-2-Clause
"""Reads the machine's own addresses from what the kernel shows of its tables. Private to llmgw and pure."""

from __future__ import annotations

import ipaddress
import re

_LEAF = re.compile(r"\|--\s+(?P<address>[0-9]{1,3}(?:\.[0-9]{1,3}){3})\s*$")
_OWN = re.compile(r"/32 host LOCAL\s*$")
_LOOPBACK = "127."


def own_ipv4(fib_trie: str) -> frozenset[str]:
    """The machine's IPv4 addresses, from /proc/net/fib_trie; without loopback."""
    found: set[str] = set()
    leaf: str | None = None
    for line in fib_trie.splitlines():
        named = _LEAF.search(line)
        if named is not None:
            leaf = named.group("address")
        elif leaf is not None and _OWN.search(line) and not leaf.startswith(_LOOPBACK):
            found.add(leaf)
    return frozenset(found)


def own_ipv6(if_inet6: str) -> frozenset[str]:
    """The machine's IPv6 addresses in their short form, from /proc/net/if_inet6; without loopback."""
    found: set[str] = set()
    for line in if_inet6.splitlines():
        digits = line.split()[0] if line.split() else ""
        if re.fullmatch(r"[0-9a-f]{32}", digits):
            address = ipaddress.IPv6Address(int(digits, 16))
            if not address.is_loopback:
                found.add(str(address))
    return frozenset(found)


def plain(address: str) -> str | None:
    """An address in the form that the functions above give; None for what is none, such as a name."""
    try:
        return str(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return None
