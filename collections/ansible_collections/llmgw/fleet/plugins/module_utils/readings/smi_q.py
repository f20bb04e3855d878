# SPDX-License-Identifier: BSD-2-Clause
"""Reads what `nvidia-smi -q` prints, whole or a part of it (`-d`), of any driver.

Private to llmgw and pure. A line is inside the nearest line above it that is indented less. Name and value are parted
by the first colon with blanks around it, wherever its column is: values, names of processes above all, hold colons too.
"""

from __future__ import annotations

import re

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_reading
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_tree import DEPTH, Node

_CARD = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])")
_COLON = re.compile(r"[ \t]:(?=[ \t]|$)")
_TITLE = re.compile(r"=+ ?NVSMI LOG ?=+")


def read(text: str) -> smi_reading.SmiReading:
    """The cards in the text, in its order. Raises Unreadable when it has neither a card nor the head of an answer."""
    top = Node("")
    cards: list[Node] = []
    inside: list[tuple[int, Node]] = []  # the open sections with their indentation, outermost first
    titled = False
    for line in text.splitlines():
        said = line.strip()
        title, card = _TITLE.fullmatch(said), _CARD.fullmatch(said)
        titled = titled or title is not None
        if not said or title is not None:
            continue
        indent = len(line[: len(line) - len(line.lstrip())].expandtabs())
        if card is not None:
            cards.append(Node(card.group(1)))
            inside = [(indent, cards[-1])]
            continue
        node = _node(said)
        if not inside or indent <= inside[0][0]:
            top.children.append(node)  # of the whole answer, or the rest of a name that has several lines
            continue
        while inside[-1][0] >= indent:
            inside.pop()
        if len(inside) > DEPTH:
            raise Unreadable(f"the text is nested deeper than {DEPTH} lines")
        inside[-1][1].children.append(node)
        inside.append((indent, node))
    if not cards and not titled and top.find("driverversion", "attachedgpus") is None:
        raise Unreadable("there is no line `GPU <bus id>` and no head of nvidia-smi -q")
    return smi_reading.reading(top, cards)


def _node(line: str) -> Node:
    colon = _COLON.search(line)
    return Node(line[: colon.start()].rstrip(), line[colon.end() :]) if colon else Node(line)
