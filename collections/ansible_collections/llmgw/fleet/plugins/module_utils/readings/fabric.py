# SPDX-License-Identifier: BSD-2-Clause
"""Reads the Fabric section that `nvidia-smi -q` prints for a card, or the `<fabric>` element of its XML.

Private to llmgw and pure. Of several cards in one text the first is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

_HEADING = "fabric"
_NOTHING = frozenset({"", "N/A", "[N/A]"})
_ELEMENT = re.compile(r"<(?P<name>[A-Za-z][A-Za-z_]*)>(?P<value>[^<]*)</(?P=name)>")
_SECTION = re.compile(r"<fabric>(?P<body>.*?)(?:</fabric>|\Z)", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,20}")
_STATE = "state"
# Names as they are read: lower case, without blanks and underscores.
_FIELDS = frozenset({_STATE, "status", "cliqueid", "clusteruuid", "summary", "bandwidth"})
_HEALTH = "health"


@dataclass(frozen=True)
class FabricReading:
    """State of one card in its fabric; `usable_for_mnnvl` only when everything says so."""

    state: str | None = None
    status: str | None = None
    clique_id: int | None = None
    cluster_uuid: str | None = None
    health_summary: str | None = None
    bandwidth: str | None = None
    usable_for_mnnvl: bool = False


def read(text: str) -> FabricReading:
    """The reading of the first section. Raises Unreadable without one."""
    section = _SECTION.search(text)
    fields = _elements(section.group("body")) if section else _below(text.splitlines())
    if _STATE not in fields:
        raise Unreadable("no section 'Fabric' with a State")
    clique = fields.get("cliqueid")
    state, status, uuid, summary = (fields.get(name) for name in (_STATE, "status", "clusteruuid", "summary"))
    # A single machine's NVSwitch is Completed too, with a UUID of zeros.
    joined = uuid is not None and uuid.strip("0-") != ""
    return FabricReading(
        state=state,
        status=status,
        clique_id=int(clique) if clique is not None and _NUMBER.fullmatch(clique) else None,
        cluster_uuid=uuid,
        health_summary=summary,
        bandwidth=fields.get("bandwidth"),
        usable_for_mnnvl=joined and (state, status) == ("Completed", "Success") and summary in {None, "Healthy"},
    )


def _elements(body: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for element in _ELEMENT.finditer(body):
        _keep(found, element.group("name"), element.group("value"))
    return found


def _below(lines: list[str]) -> dict[str, str | None]:
    """Fields below the first heading, or of the whole text where the heading was cut off."""
    heads = [place for place, line in enumerate(lines) if line.strip().rstrip(": ").lower() == _HEADING]
    if not heads:
        return _fields(lines, None)
    head = lines[heads[0]]
    return _fields(lines[heads[0] + 1 :], len(head) - len(head.lstrip()))


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
