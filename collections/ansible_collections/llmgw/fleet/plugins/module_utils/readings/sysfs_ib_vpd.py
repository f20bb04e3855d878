# SPDX-License-Identifier: BSD-2-Clause
"""Reads the vital product data of a PCI function: the binary file `vpd` (PCI Local Bus Specification 3.0, appendix I).

Private to llmgw and pure.
"""

from __future__ import annotations

import re

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

_IDENTIFIER = 0x82
_READ_ONLY = 0x90
_READ_WRITE = 0x91
_END = 0x78
_LARGE = 0x80
_SMALL_LENGTH = 0x07
_HEAD = 3  # of a large resource (tag, length), and of a field (two letters, length)
_SWITCH_MANAGEMENT = re.compile(r"(?:^|[^A-Za-z0-9_])SMDL=SW_MNG(?:$|[^A-Za-z0-9_])")


def read(content: bytes) -> dict[str, str]:
    """Fields by keyword (`PN`, `SN`, `VA`...), those of the read-only part first; `ID` is the product's name.

    Fields before the place where the data breaks off are kept. Raises Unreadable when it does not begin like VPD.
    """
    fields: dict[str, str] = {}
    place = 0
    while place < len(content) and content[place] != _END:
        tag = content[place]
        if not tag & _LARGE:  # a small resource says its length in its tag
            place += 1 + (tag & _SMALL_LENGTH)
            continue
        if tag not in {_IDENTIFIER, _READ_ONLY, _READ_WRITE} or len(content) < place + _HEAD:
            break
        length = int.from_bytes(content[place + 1 : place + _HEAD], "little")
        body = content[place + _HEAD : place + _HEAD + length]
        if tag == _IDENTIFIER:
            fields.setdefault("ID", _text(body))
        else:
            _keep(fields, body)
        place += _HEAD + length
    if not fields:
        raise Unreadable("no VPD resource with fields")
    return fields


def manages_switches(fields: dict[str, str]) -> bool:
    """Whether a ConnectX function is the way to the NVSwitches' management and no network adapter."""
    return any(_SWITCH_MANAGEMENT.search(value) for value in fields.values())


def _keep(fields: dict[str, str], body: bytes) -> None:
    place = 0
    while place + _HEAD <= len(body):
        keyword = _text(body[place : place + 2])
        length = body[place + 2]
        fields.setdefault(keyword, _text(body[place + _HEAD : place + _HEAD + length]))
        place += _HEAD + length


def _text(body: bytes) -> str:
    return body.decode("latin-1").strip(" \t\r\n\0")
