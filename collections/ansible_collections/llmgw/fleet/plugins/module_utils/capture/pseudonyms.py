# SPDX-License-Identifier: BSD-2-Clause
"""Stand-ins for what identifies a machine, its hardware or its people: of the same shape, and always the same (D16).

Private to llmgw and pure. A stand-in is drawn from the value by a secret key: nobody can try out values without it, and
captures made with one key can still be joined.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import string
from typing import Callable, Dict, Iterator, Set, Tuple, Union

_SET_APART = int(ipaddress.IPv4Address("198.18.0.0"))  # RFC 2544: for measurements, never a machine's own
_SET_APART_BITS = 17
_MULTICAST_V4 = 0xE  # in the first four bits, and all above it
_MULTICAST_V6 = 0xFF
_ALPHABETS = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
_LOW = (1 << 64) - 1
_MAPPED = 0xFFFF << 32  # ::ffff:a.b.c.d
_KEPT_PREFIXES = (0, 0xFE80 << 48, 0xFEC0 << 48)
_MOST_TRIES = 1000

_Value = Union[str, int]


class Pseudonyms:
    """Gives stand-ins by the kind of the value. Two values of a kind never get one stand-in."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._given: Dict[Tuple[str, _Value], _Value] = {}
        self._taken: Set[Tuple[str, _Value]] = set()

    def word(self, kind: str, text: str) -> str:
        """Letters for letters of the same case, digits for digits, everything else as it is."""
        if not any(letter in alphabet for letter in text for alphabet in _ALPHABETS):
            return text
        return str(self._unique(kind, text, lambda draw: _same_shape(text, draw)))

    def hexadecimal(self, kind: str, digits: str, kept: int = 0) -> str:
        """Other hexadecimal digits in the same case; the first `kept` stay, and so does a value of zeros alone."""
        if not digits.strip("0"):
            return digits
        low = digits.lower()

        def make(draw: bytes) -> str:
            return low[:kept] + draw.hex()[: len(low) - kept]

        made = str(self._unique(f"{kind}/{len(low)}", low, make))
        return made if digits == low else made.upper()

    def ipv4(self, address: int) -> int:
        """Another address, of a network that is set apart; loopback, multicast, masks and `any` stay."""
        if address >> 24 in {0, 127} or address >> 28 >= _MULTICAST_V4:
            return address
        return int(self._unique("ipv4", address, lambda draw: _SET_APART | _number(draw) % (1 << _SET_APART_BITS)))

    def ipv6(self, address: int) -> int:
        """Another address: loopback and multicast stay; either half is replaced as a GUID is."""
        if address in {0, 1} or address >> 120 == _MULTICAST_V6:
            return address
        if address & ~0xFFFFFFFF == _MAPPED:
            return _MAPPED | self.ipv4(address & 0xFFFFFFFF)
        return self.guid(address >> 64) << 64 | self.guid(address & _LOW)

    def guid(self, guid: int) -> int:
        """Another GUID, or another prefix of a subnet; the default prefixes fe80:: and fec0:: stay."""
        return guid if guid in _KEPT_PREFIXES else int(self.hexadecimal("guid", f"{guid:016x}"), 16)

    def _unique(self, kind: str, value: _Value, make: Callable[[bytes], _Value]) -> _Value:
        known = self._given.get((kind, value))
        if known is not None:
            return known
        made = value
        for draw in self._draws(kind, value):
            made = make(draw)
            if (kind, made) not in self._taken and made != value:
                break
        self._taken.add((kind, made))
        self._given[kind, value] = made
        return made

    def _draws(self, kind: str, value: _Value) -> Iterator[bytes]:
        """Bytes that only the key, the kind and the value decide about, and others when those were taken."""
        for turn in range(_MOST_TRIES):
            message = f"{kind}\0{value}\0{turn}".encode("utf-8", "surrogateescape")
            yield b"".join(hmac.new(self._key, message + bytes([block]), hashlib.sha256).digest() for block in range(8))


def _same_shape(text: str, draw: bytes) -> str:
    made = []
    for place, letter in enumerate(text):
        alphabet = next((one for one in _ALPHABETS if letter in one), letter)
        made.append(alphabet[draw[place % len(draw)] % len(alphabet)])
    return "".join(made)


def _number(draw: bytes) -> int:
    return int.from_bytes(draw[:8], "big")
