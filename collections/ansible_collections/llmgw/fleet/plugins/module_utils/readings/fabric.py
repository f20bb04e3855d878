# SPDX-License-Identifier: BSD-2-Clause
"""Reads the Fabric section that `nvidia-smi -q` prints for a card, or the `<fabric>` element of its XML.

Private to llmgw and pure. A text may hold the sections of several cards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterator

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

_HEADING = "fabric"
_NOTHING = frozenset({"", "N/A", "[N/A]"})
_ELEMENT = re.compile(r"<(?P<name>[A-Za-z][A-Za-z_]*)>(?P<value>[^<]*)</(?P=name)>")
_SECTION = re.compile(r"<fabric>(?P<body>.*?)(?:</fabric>|\Z)", re.DOTALL)
_CARD_ELEMENT = re.compile(r"<gpu\s+id=[\"'](?P<address>[^\"'<>]{1,40})[\"']")
_CARD = re.compile(r"\s*GPU\s+(?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*")
_NUMBER = re.compile(r"[0-9]{1,20}")
_STATE = "state"
# Names as they are read: lower case, without blanks and underscores.
_FIELDS = frozenset({_STATE, "status", "cliqueid", "clusteruuid", "summary", "bandwidth"})
_HEALTH = "health"


@dataclass(frozen=True)
class CardFabric:
    """State of one card in its fabric; `usable_for_mnnvl` only when everything says so.

    `card` is the PCI address as it is printed above the section, None where the text does not have it.
    """

    state: str | None = None
    status: str | None = None
    clique_id: int | None = None
    cluster_uuid: str | None = None
    health_summary: str | None = None
    bandwidth: str | None = None
    usable_for_mnnvl: bool = False
    card: str | None = None


@dataclass(frozen=True)
class FabricReading(CardFabric):
    """The first card in the text, and in `others` those that follow it."""

    others: tuple[CardFabric, ...] = ()


def read(text: str) -> FabricReading:
    """The reading. Raises Unreadable where the first section has no State, or there is no section."""
    sections = list(_of_xml(text)) or list(_of_text(text.splitlines()))
    first, *others = (_card(address, fields) for address, fields in sections)
    if _STATE not in sections[0][1]:
        raise Unreadable("no section 'Fabric' with a State")
    return FabricReading(**vars(first), others=tuple(others))


def _card(address: str | None, fields: dict[str, str | None]) -> CardFabric:
    clique = fields.get("cliqueid")
    state, status, uuid, summary = (fields.get(name) for name in (_STATE, "status", "clusteruuid", "summary"))
    # A single machine's NVSwitch is Completed too, with a UUID of zeros.
    joined = uuid is not None and uuid.strip("0-") != ""
    return CardFabric(
        state=state,
        status=status,
        clique_id=int(clique) if clique is not None and _NUMBER.fullmatch(clique) else None,
        cluster_uuid=uuid,
        health_summary=summary,
        bandwidth=fields.get("bandwidth"),
        usable_for_mnnvl=joined and (state, status) == ("Completed", "Success") and summary in {None, "Healthy"},
        card=address,
    )


def _of_xml(text: str) -> Iterator[tuple[str | None, dict[str, str | None]]]:
    """Address and fields of each element."""
    place = 0
    for section in _SECTION.finditer(text):
        named = list(_CARD_ELEMENT.finditer(text, place, section.start()))
        yield named[-1].group("address") if named else None, _elements(section.group("body"))
        place = section.end()


def _elements(body: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for element in _ELEMENT.finditer(body):
        _keep(found, element.group("name"), element.group("value"))
    return found


def _of_text(lines: list[str]) -> Iterator[tuple[str | None, dict[str, str | None]]]:
    """Address and fields of each section below a heading, or from State to State where headings were cut off."""
    heads = [place for place, line in enumerate(lines) if line.strip().rstrip(": ").lower() == _HEADING]
    if not heads:
        starts = [place for place, line in enumerate(lines) if _plain(line.partition(":")[0]) == _STATE][1:]
        yield from ((None, _fields(lines[start:end], None)) for start, end in zip([0, *starts], [*starts, len(lines)]))
    before = 0
    for place, end in zip(heads, [*heads[1:], len(lines)]):
        named = [card for card in map(_CARD.fullmatch, lines[before:place]) if card]
        head = lines[place]
        yield (
            named[-1].group("address") if named else None,
            _fields(lines[place + 1 : end], len(head) - len(head.lstrip())),
        )
        before = place


def _fields(lines: list[str], indent: int | None) -> dict[str, str | None]:
    """Fields of the lines that are indented by more than `indent`, up to the first that is not; of all without one."""
    found: dict[str, str | None] = {}
    for line in lines:
        if not line.strip():
            continue
        name, _colon, value = line.partition(":")
        # Where blanks at the beginning of lines were lost, the names tell what belongs to the section.
        is_inside = indent is None or len(line) - len(line.lstrip()) > indent or _plain(name) in {_HEALTH, *_FIELDS}
        if not is_inside:
            break
        _keep(found, name, value)
    return found


def _keep(found: dict[str, str | None], name: str, value: str) -> None:
    """Keeps a field that is asked for; of several values the first."""
    if _plain(name) in _FIELDS:
        found.setdefault(_plain(name), None if value.strip() in _NOTHING else value.strip())


def _plain(name: str) -> str:
    return "".join(name.lower().split()).replace("_", "")
