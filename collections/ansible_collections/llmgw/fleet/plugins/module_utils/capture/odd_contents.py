# SPDX-License-Identifier: BSD-2-Clause
"""Stand-ins in contents that spell addresses and numbers in their own way or hold people's words, and what of a kernel
log is to be shown.

Private to llmgw and pure.
"""

from __future__ import annotations

import json
import re
from typing import Match

from ansible_collections.llmgw.fleet.plugins.module_utils.capture.pseudonyms import Pseudonyms

SOCKETS = re.compile(r"/proc/(?:[0-9]+/|self/)?net/tcp6?")
INTERFACES = re.compile(r"/proc/(?:[0-9]+/|self/)?net/if_inet6")
MARKS = re.compile(r"/(?:.*/)?(?:cordoned|drained|applied\.json|quarantine/[^/]+\.json)")
"""Files of the state directory in which people tell who they are and what they do."""
_BY_PEOPLE = ("by", "reason")
_NO_MARK = b"?"
_SOCKET = re.compile(rb"(?<=: )([0-9A-F]{8}|[0-9A-F]{32})(?=:[0-9A-F]{4} )")
_INTERFACE = re.compile(rb"^[0-9a-f]{32}(?= )", re.MULTILINE)
_KERNEL_LOGS = ("dmesg", "journalctl")
_OF_CARDS = re.compile("NVRM|nvidia|10de:", re.IGNORECASE)
_FIRST_LINES = 50
_WORD = 4
_IPV4 = 4


def socket_addresses(table: bytes, pseudonyms: Pseudonyms) -> bytes:
    """A table of sockets with other addresses: words of 32 bits in the order of a little-endian machine."""

    def other(found: Match[bytes]) -> bytes:
        packed = _turned(bytes.fromhex(found.group().decode("ascii")))
        address = int.from_bytes(packed, "big")
        made = pseudonyms.ipv4(address) if len(packed) == _IPV4 else pseudonyms.ipv6(address)
        return _turned(made.to_bytes(len(packed), "big")).hex().upper().encode("ascii")

    return _SOCKET.sub(other, table)


def interface_addresses(table: bytes, pseudonyms: Pseudonyms) -> bytes:
    """The kernel's table of IPv6 addresses, which it writes without colons, with others."""
    return _INTERFACE.sub(lambda found: f"{pseudonyms.ipv6(int(found.group(), 16)):032x}".encode("ascii"), table)


def vital_data(content: bytes, pseudonyms: Pseudonyms) -> bytes:
    """A product's vital data with another serial number: the key, a byte that counts, the number."""
    found = re.search(rb"SN([\x01-\x7f])", content)
    if found is None:
        return content
    begin, end = found.end(), found.end() + found.group(1)[0]
    number = pseudonyms.word("serial", content[begin:end].decode("latin-1"))
    return content[:begin] + number.encode("latin-1") + content[end:]


def mark(content: bytes, pseudonyms: Pseudonyms) -> bytes:
    """A mark with other words of whoever made it. One that cannot be read stays one, and has no words."""
    if not content.strip():
        return content
    try:
        said = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return _NO_MARK
    if not isinstance(said, dict):
        return _NO_MARK
    for name in _BY_PEOPLE:
        if isinstance(said.get(name), str):
            said[name] = pseudonyms.word("mark", said[name])
    return json.dumps(said, sort_keys=True).encode("ascii")


def is_kernel_log(command: str) -> bool:
    """Whether a command prints the kernel log."""
    return command in _KERNEL_LOGS


def about_cards(log: str) -> str:
    """A kernel log's beginning and what it says of cards: the rest names disks, users, whatever was plugged in."""
    kept = []
    goes_on = False
    for number, line in enumerate(log.splitlines(keepends=True)):
        goes_on = _OF_CARDS.search(line) is not None or (goes_on and line[:1].isspace())
        if goes_on or number < _FIRST_LINES:
            kept.append(line)
    return "".join(kept)


def _turned(packed: bytes) -> bytes:
    """The bytes of every word in reverse."""
    return b"".join(packed[place : place + _WORD][::-1] for place in range(0, len(packed), _WORD))
