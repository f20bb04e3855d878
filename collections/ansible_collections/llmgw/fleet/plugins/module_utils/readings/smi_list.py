# SPDX-License-Identifier: BSD-2-Clause
"""Reads what `nvidia-smi -L` prints: the cards and their MIG devices by UUID. Private to llmgw and pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

_CARD = re.compile(r"GPU\s+(?P<index>[0-9]{1,4}):")
_INSTANCE = re.compile(r"MIG\s+(?:(?P<profile>\S+)\s+)?Device\s+(?P<index>[0-9]{1,4}):")
# Lines that people copy can lack the parenthesis at their end.
_UUID = re.compile(r"\s*([^)\s]+)\s*\)?")


@dataclass(frozen=True)
class ListedInstance:
    """One MIG device; its index restarts with every card. Drivers before 470 print no profile."""

    index: int
    profile: str | None
    uuid: str


@dataclass(frozen=True)
class ListedGpu:
    """One card."""

    index: int
    name: str
    uuid: str
    mig: tuple[ListedInstance, ...] = ()


@dataclass(frozen=True)
class Listing:
    """All cards in the order of the text."""

    gpus: tuple[ListedGpu, ...]


def read(text: str) -> Listing:
    """The cards that the text lists; lines about other things are passed over. Raises Unreadable without any card."""
    cards: list[ListedGpu] = []
    for line in text.splitlines():
        named, _words, behind = line.strip().rpartition("(UUID:")
        uuid = _UUID.fullmatch(behind)
        card = _CARD.match(named)
        instance = _INSTANCE.fullmatch(named.rstrip())
        if uuid is None:
            continue
        if card is not None:
            cards.append(ListedGpu(int(card.group("index")), named[card.end() :].strip(), uuid.group(1)))
        elif instance is not None and cards:
            listed = ListedInstance(int(instance.group("index")), instance.group("profile"), uuid.group(1))
            cards[-1] = replace(cards[-1], mig=(*cards[-1].mig, listed))
    if not cards:
        raise Unreadable("there is no line `GPU <index>: <name> (UUID: ...)`")
    return Listing(tuple(cards))
