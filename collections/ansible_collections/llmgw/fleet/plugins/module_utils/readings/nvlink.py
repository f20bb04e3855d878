# SPDX-License-Identifier: BSD-2-Clause
"""Reads `nvidia-smi nvlink -s`: the NVLinks of each card and their speed (D6).

Private to llmgw and pure. Of a card in MIG mode the tool tells nothing: its links are unknown, not none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import List, Optional, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.topo_sign import is_matrix

_CARD = re.compile(r"GPU\s+(?P<index>[0-9]{1,4}):(?P<rest>.*)", re.IGNORECASE)
_UUID = re.compile(r"\(UUID:\s*(?P<uuid>[^)\s]*)\)?", re.IGNORECASE)
_LINK = re.compile(r"Link\s+(?P<link>[0-9]{1,3}):(?P<state>.*)", re.IGNORECASE)
_SPEED = re.compile(r"(?P<speed>[0-9]{1,6}(?:\.[0-9]{1,6})?)\s*GB/s")
_IN_MIG_MODE = re.compile(r"\bMIG[ -]mode\b", re.IGNORECASE)
_ABOUT_NVLINK = re.compile(r"nvlink", re.IGNORECASE)


@dataclass(frozen=True)
class CardLinks:
    """Links of one card; `gbps_per_link` are the speeds of the active ones, GB/s in one direction, ascending.

    `notes` are what the tool says in place of links.
    """

    index: int
    name: str
    n_links: Optional[int] = 0
    active_links: Optional[int] = 0
    gbps_per_link: Tuple[float, ...] = ()
    uuid: Optional[str] = None
    notes: Tuple[str, ...] = ()


@dataclass(frozen=True)
class NvlinkStatus:
    """All cards in the text; `messages` are the lines that are neither a card nor a link."""

    gpus: Tuple[CardLinks, ...]
    messages: Tuple[str, ...]


def read(text: str) -> NvlinkStatus:
    """The links of each card; Unreadable when the text names no card and says nothing of NVLink, or is a matrix."""
    cards: List[CardLinks] = []
    messages: List[str] = []
    notes: List[List[str]] = []
    for line in map(str.strip, text.splitlines()):
        link = _LINK.fullmatch(line)
        card = _card(line)
        if link is not None and cards:
            cards[-1] = _with_link(cards[-1], link.group("state").strip())
        elif card is not None and (card.uuid or not _IN_MIG_MODE.search(line)):
            cards.append(card)
            notes.append(list(card.notes))
        elif line:
            messages.append(line)
            if notes:
                notes[-1].append(line)
    cards = [replace(card, notes=tuple(said)) for card, said in zip(cards, notes)]
    if not cards and is_matrix(text):
        raise Unreadable(
            "looked for the output of 'nvidia-smi nvlink -s' and found no card with its links, but a topology matrix"
        )
    if not cards and not any(_ABOUT_NVLINK.search(message) for message in messages):
        raise Unreadable(
            "looked for the output of 'nvidia-smi nvlink -s' and found neither a card nor a word of NVLink"
        )
    return NvlinkStatus(tuple(_finished(card) for card in cards), tuple(messages))


def _card(line: str) -> Optional[CardLinks]:
    """The card that a line names, with what the line says behind the UUID; None for another line."""
    named = _CARD.fullmatch(line)
    if named is None:
        return None
    rest = named.group("rest")
    uuid = _UUID.search(rest)
    if uuid is None:
        return CardLinks(int(named.group("index")), rest.strip())
    note = rest[uuid.end() :].strip()
    return CardLinks(
        int(named.group("index")),
        rest[: uuid.start()].strip(),
        uuid=uuid.group("uuid") or None,
        notes=(note,) if note else (),
    )


def _with_link(card: CardLinks, state: str) -> CardLinks:
    speed = _SPEED.match(state)
    speeds = set(card.gbps_per_link) | ({float(speed.group("speed"))} if speed else set())
    return replace(
        card,
        n_links=(card.n_links or 0) + 1,
        active_links=(card.active_links or 0) + (speed is not None),
        gbps_per_link=tuple(sorted(speeds)),
    )


def _finished(card: CardLinks) -> CardLinks:
    in_mig_mode = any(_IN_MIG_MODE.search(note) for note in card.notes)
    return replace(card, n_links=None, active_links=None, gbps_per_link=()) if in_mig_mode else card
