# SPDX-License-Identifier: Apache-2.0
"""One spelling for the addresses by which ports and fabrics are told apart: PCI, GUID, subnet prefix, GID."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

DEFAULT_PREFIX = "fe80:0000:0000:0000"
"""What InfiniBand has where nobody set a subnet prefix: equal in fabrics that have nothing to do with one another."""
_PCI = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
_GUID = re.compile("0x[0-9a-f]{16}")
_HEX = re.compile("[0-9a-f]{1,16}")
_WHOLE_GID = re.compile("[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){7}")
_DIFFERENT = 4096
"""Of a fleet's thousands of ports, few differ in these: machines of one make have their adapters in the same slots."""


@lru_cache(_DIFFERENT)
def pci_address(text: str) -> str:
    """`0000:1a:00.0`, from that with any length of domain or none. Raises ValueError."""
    found = _PCI.fullmatch(text.strip())
    if not found:
        raise ValueError("it is no PCI address such as 0000:1a:00.0")
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{device.lower()}.{function}"


def guid(text: str) -> str:
    """`0x` and sixteen hexadecimal digits, from those with or without `0x` and colons. Raises ValueError."""
    digits = text.strip().lower().removeprefix("0x").replace(":", "")
    if not _HEX.fullmatch(digits) or int(digits, 16) == 0:
        raise ValueError("it is no GUID of sixteen hexadecimal digits")
    return f"0x{digits:0>16}"


def guids(texts: Sequence[str]) -> tuple[str, ...]:
    """Those that are GUIDs, in one spelling. A list that begins in it is taken as it is: there are thousands."""
    if texts and _GUID.fullmatch(texts[0]):
        return tuple(texts)
    return tuple(found for text in texts for found in _guid_or_none(text))


def _guid_or_none(text: str) -> Iterator[str]:
    try:
        yield guid(text)
    except ValueError:
        return


def subnet_prefix(text: str) -> str:
    """The upper half of a GID as `fec0:0000:0000:0001`, from a GID, its first four groups, or `0x...`.

    Raises ValueError.
    """
    written = text.strip().lower()
    if re.fullmatch("[0-9a-f]{1,4}(:[0-9a-f]{1,4}){3}", written):
        written += "::"
    if ":" not in written:
        return prefix_of(int(guid(written), 16) << 64)
    try:
        high = int(IPv6Address(written)) >> 64
    except ValueError as error:
        raise ValueError("it is no subnet prefix such as fec0:0:0:1") from error
    if not high:
        raise ValueError("it is no subnet prefix: it is zero")
    return prefix_of(high << 64)


def prefix_of(address: int) -> str:
    """The subnet prefix of a GID given as a number: its upper half in four groups."""
    return _in_groups(address >> 64)


@lru_cache(_DIFFERENT)
def _in_groups(half: int) -> str:
    digits = f"{half:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def gid(text: str) -> IPv6Address | None:
    """A GID as an address; None for what is none, or is all zero."""
    try:
        # The kernel writes all eight groups; the general reader takes ten times as long.
        found = IPv6Address(int(text.replace(":", ""), 16) if _WHOLE_GID.fullmatch(text) else text.strip())
    except ValueError:
        return None
    return found if int(found) else None


def routable(address: IPv6Address) -> IPv4Address | IPv6Address | None:
    """The IP address that a RoCE port has by this GID; None for one that is only good on its own link."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return None if address.is_link_local or address.is_multicast else address
