# SPDX-License-Identifier: BSD-2-Clause
"""Reads what `nvidia-smi -q -x` prints, of any driver (DTD v2 to v13, an inline DTD, or none).

Private to llmgw and pure. Only a whole document is read: half an answer would pass for a machine with fewer cards.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_reading
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_tree import DEPTH, Node

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_ROOT = re.compile(r"<nvidia_smi_log(?=[\s>])")
_END = re.compile(r"</nvidia_smi_log\s*>")
_DOCTYPE = re.compile(r"<!DOCTYPE\b")
_PROLOG = re.compile(r"\ufeff|<\?xml\b|<!DOCTYPE\b")
_DTD = re.compile(r"nvsmi_device_(v[0-9]{1,4})\.dtd")
_START = re.compile(r"<(?:[?!a-z]|$)")
# XML knows no such characters; names of processes can hold them.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def read(text: str) -> smi_reading.SmiReading:
    """The cards in the text, in its order. Messages around the document are passed over. Raises Unreadable."""
    prolog, root = _document(text)
    cards = []
    for element in root.findall("gpu"):
        card = _tree(element)
        card.name = (element.get("id") or "").strip()
        cards.append(card)
    top = Node("nvidia_smi_log")
    top.children = [Node(element.tag, element.text or "") for element in root if element.tag != "gpu"]
    return smi_reading.reading(top, cards, _dtd(prolog))


def around(text: str) -> str:
    """What the text holds besides the document: warnings and messages about single cards."""
    place = _place(text)
    return text if place is None else f"{_PROLOG.split(text[: place[0]], maxsplit=1)[0]}\n{text[place[1] :]}"


def is_xml(text: str) -> bool:
    """Whether the text starts as XML."""
    return _START.match(text.lstrip("\ufeff \t\r\n")) is not None


def is_whole(text: str) -> bool:
    """Whether the text holds a whole, well-formed document of nvidia-smi."""
    try:
        _document(text)
    except Unreadable:
        return False
    return True


def _place(text: str) -> tuple[int, int] | None:
    """Where the root element begins and ends. Comments of an inline DTD may speak of elements too."""
    searched = 0
    while True:
        root = _ROOT.search(text, searched)
        if root is None:
            return None
        opened = text.rfind("<!--", searched, root.start())
        closed = text.find("-->", opened) if opened >= 0 else -1
        if closed < root.start():
            break
        searched = closed
    end = _END.search(text, root.end())
    return (root.start(), end.end()) if end else None


def _document(text: str) -> tuple[str, Element]:
    """What stands before the root element, and the root element."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415 - nodes without cards need no parser

    place = _place(text)
    if place is None:
        raise Unreadable("there is no complete <nvidia_smi_log> document")
    try:
        # The root element alone is parsed: without a DTD there are no entities that could be expanded.
        root = ET.fromstring(_CONTROL.sub("", text[place[0] : place[1]]))  # noqa: S314
    except (ET.ParseError, ValueError) as error:
        raise Unreadable(f"the <nvidia_smi_log> document is not well-formed: {error}") from None
    return text[: place[0]], root


def _dtd(prolog: str) -> str | None:
    doctype = _DOCTYPE.search(prolog)
    named = _DTD.search(prolog, doctype.start()) if doctype else None
    return named.group(1) if named else None


def _tree(element: Element) -> Node:
    """The element and all inside it. Raises Unreadable for one that is nested deeper than any driver nests."""
    top = Node(element.tag, element.text or "")
    level = [(top, element)]
    for _depth in range(DEPTH):
        deeper = []
        for node, parent in level:
            for child in parent:
                node.children.append(Node(child.tag, child.text or ""))
                deeper.append((node.children[-1], child))
        if not deeper:
            return top
        level = deeper
    raise Unreadable(f"the document is nested deeper than {DEPTH} elements")
