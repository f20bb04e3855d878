# SPDX-License-Identifier: BSD-2-Clause
"""Replaces in a recording what tells whose machine it is, so that it still reads as the same machine (D16).

Private to llmgw and pure. Host names, serial numbers, UUIDs, addresses (IPv4, IPv6, MAC), GUIDs, GIDs but for a default
prefix, and names of users with a home: each always by the same stand-in, in contents, paths and options alike.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, List, Mapping, Match, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils import unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.capture import identities, odd_contents
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.pseudonyms import Pseudonyms
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import Answer, Call, Recording

_HEX = "[0-9A-Fa-f]"
_UUID = rf"(?<!{_HEX}){_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}(?!{_HEX})"
_IPOIB = rf"(?<![\w:]){_HEX}{{2}}(?::{_HEX}{{2}}){{19}}(?![\w:])"
_MAC = rf"(?<![\w:]){_HEX}{{2}}(?::{_HEX}{{2}}){{5}}(?![\w:])"
_GUID = rf"(?<![\w:]){_HEX}{{4}}(?::{_HEX}{{4}}){{3}}(?![\w:])"
_LONG_GUID = rf"(?<![\w:])0x{_HEX}{{11,16}}(?!\w)"
_CLUSTER = r"(?<=\"cluster\": )\[[0-9]{1,3}(?:, [0-9]{1,3}){15}\]"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"(?<![\w.]){_OCTET}(?:\.{_OCTET}){{3}}(?![\w]|\.[0-9])"
_IPV6 = rf"(?<![\w:.])(?:{_HEX}{{0,4}}:){{2,7}}(?:{_OCTET}(?:\.{_OCTET}){{3}}|{_HEX}{{0,4}})(?![\w:]|\.[0-9])"
_USER = rf"(?<=/home/){identities.USER}"
_DIGEST = r"sha256:[0-9a-f]{64}"
_NO_GUID = 40
"""A GUID has its maker in the bits above; smaller numbers of 64 bits are masks and counters."""


class Redactor:
    """Stand-ins for one recording. A key that others know too gives the same stand-ins in their captures.

    It is applied once: a stand-in would be replaced like any other value.
    """

    def __init__(self, recording: Recording, key: bytes, names: Iterable[str] = (), called: str = "") -> None:
        self._pseudonyms = Pseudonyms(key)
        self._digests: Dict[str, str] = {}
        found = identities.find(recording, names, called)
        rules: List[Tuple[str, Callable[[str], str]]] = [
            (_UUID, self._uuid),
            (_IPOIB, self._ipoib),
            (_MAC, self._mac),
            (_GUID, self._guid),
            (_LONG_GUID, self._long_guid),
            (_CLUSTER, self._cluster),
            (_IPV6, self._ipv6),
            (_IPV4, self._ipv4),
            (_DIGEST, lambda text: self._digests.get(text, text)),
            (_USER, lambda text: self._pseudonyms.word("user", text)),
            (_any_of(found.users), lambda text: self._pseudonyms.word("user", text)),
            (_any_of(found.serials), lambda text: self._pseudonyms.word("serial", text)),
            (_any_of(found.hosts), lambda text: self._pseudonyms.word("host", text)),
        ]
        self._rules = tuple(rule for _pattern, rule in rules)
        self._pattern = re.compile("|".join(f"({pattern})" for pattern, _rule in rules))
        # Binary formats count their bytes, and what looks like an address in them is none.
        kept = ("(?!)" if pattern in {_IPV4, _IPV6} else pattern for pattern, _rule in rules)
        self._same_length = re.compile("|".join(f"({pattern})" for pattern in kept))
        for call, answers in recording.calls.items():
            if call.method == "read" and unitfile.is_replica_unit(str(call.of[0]).rsplit("/", 1)[-1]):
                for answer in answers:
                    self._learn_digest(answer.contents.get("content", b""))

    def recording(self, recording: Recording) -> Recording:
        """The whole recording with stand-ins."""
        calls = {
            Call(call.method, tuple(self.value(word) for word in call.of)): tuple(
                self._answer(call, answer) for answer in answers
            )
            for call, answers in recording.calls.items()
        }
        return replace(recording, options=self.value(recording.options), calls=calls, redacted=True)

    def value(self, value: Any) -> Any:
        """A JSON value with stand-ins in its texts and keys; everything else as it is."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(name): self.value(inner) for name, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(one) for one in value]
        return value

    def text(self, text: str) -> str:
        """A text with stand-ins."""
        return self._pattern.sub(self._stand_in, text)

    def _stand_in(self, found: Match[str]) -> str:
        return self._rules[(found.lastindex or 1) - 1](found.group())

    def _answer(self, call: Call, answer: Answer) -> Answer:
        contents = {name: self._content(call, content) for name, content in answer.contents.items()}
        return Answer(self.value(answer.fields), contents)

    def _content(self, call: Call, content: bytes) -> bytes:
        first = str(call.of[0]) if call.of else ""
        if call.method == "read" and odd_contents.SOCKETS.fullmatch(first):
            return odd_contents.socket_addresses(content, self._pseudonyms)
        if call.method == "read" and odd_contents.INTERFACES.fullmatch(first):
            return odd_contents.interface_addresses(content, self._pseudonyms)
        if call.method == "read" and first.endswith("/vpd"):
            return odd_contents.vital_data(content, self._pseudonyms)
        if call.method == "read" and odd_contents.MARKS.fullmatch(first):
            content = odd_contents.mark(content, self._pseudonyms)
        text = content.decode("utf-8", "surrogateescape")
        if call.method == "run" and odd_contents.is_kernel_log(first):
            text = odd_contents.about_cards(text)
        pattern = self._same_length if b"\0" in content else self._pattern
        return pattern.sub(self._stand_in, text).encode("utf-8", "surrogateescape")

    def _learn_digest(self, content: bytes) -> None:
        """A unit's text with stand-ins has another digest, which has to stand where the old one did."""
        text = content.decode("utf-8", "surrogateescape")
        self._digests[unitfile.text_digest(text)] = unitfile.text_digest(self.text(text))

    def _uuid(self, text: str) -> str:
        return _with_dashes(self._pseudonyms.hexadecimal("uuid", text.replace("-", "")), text)

    def _mac(self, text: str) -> str:
        """Another address of the same maker: the first three bytes stay."""
        return _with_colons(self._pseudonyms.hexadecimal("mac", text.replace(":", ""), kept=6), text)

    def _guid(self, text: str) -> str:
        return _with_colons(f"{self._pseudonyms.guid(int(text.replace(':', ''), 16)):016x}", text)

    def _ipoib(self, text: str) -> str:
        """The link address of an IPoIB interface: four bytes of its own, then a GID."""
        digits = text.replace(":", "")
        gid = self._pseudonyms.ipv6(int(digits[8:], 16))
        return _with_colons(digits[:8] + f"{gid:032x}", text)

    def _long_guid(self, text: str) -> str:
        guid = int(text, 16)
        return text if guid >> _NO_GUID == 0 else f"0x{self._pseudonyms.guid(guid):0{len(text) - 2}x}"

    def _cluster(self, text: str) -> str:
        """A cluster's UUID as NVML gives it: a list of bytes."""
        packed = bytes(min(int(number), 255) for number in text[1:-1].split(", "))
        return str(list(bytes.fromhex(self._pseudonyms.hexadecimal("uuid", packed.hex()))))

    def _ipv4(self, text: str) -> str:
        return str(ipaddress.IPv4Address(self._pseudonyms.ipv4(int(ipaddress.IPv4Address(text)))))

    def _ipv6(self, text: str) -> str:
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:  # a time, a PCI address
            return text
        other = ipaddress.IPv6Address(self._pseudonyms.ipv6(int(address)))
        if other == address:
            return text
        return other.exploded if text.lower() == address.exploded else str(other)


def _any_of(words: Tuple[str, ...]) -> str:
    """A pattern of these words; one that matches nothing where there are none."""
    if not words:
        return r"(?!)"
    return rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, words))})(?![A-Za-z0-9])"


def _with_dashes(digits: str, like: str) -> str:
    return _punctuated(digits, like, "-")


def _with_colons(digits: str, like: str) -> str:
    return _punctuated(digits, like, ":")


def _punctuated(digits: str, like: str, mark: str) -> str:
    """The digits with the mark where the other text has it."""
    left = iter(digits)
    return "".join(mark if letter == mark else next(left) for letter in like)
