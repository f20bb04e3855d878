# SPDX-License-Identifier: BSD-2-Clause
"""Reads what `nvidia-imex-ctl` prints: `-N` as a table in its three generations, `-N -j` as JSON, `-q` as one word.

Private to llmgw and pure. Generations of the table: address and status; and version; and host name, with `*` around the
address of the local node.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Iterable, Mapping

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

READY = "READY"
_CONNECTED = frozenset({"C", "CONNECTED"})
_STATUS_WORD = re.compile(r"[A-Z][A-Z0-9_]*")
_NODE = re.compile(r"\s*Node\s+#(?P<index>[0-9]{1,6})\s+(?P<rest>\S.*)", re.IGNORECASE)
# Host names hold dashes; only one with blanks around it parts two columns, and the last may stand at the line's end.
_COLUMN = re.compile(r"(?:^| )-(?: |$)")
_FIELD = re.compile(r"(?P<name>Version|Host\s*name)\s*:\s*(?P<value>.*)", re.IGNORECASE)
_MATRIX = re.compile(r"\s*Nodes\s+From\\To\b(?P<columns>.*)", re.IGNORECASE)
_ROW = re.compile(r"\s*(?P<index>[0-9]{1,6})\s+(?P<cells>\S.*)")
# `!V!` and `!M!` fill a narrow column and then touch their neighbours.
_CELL = re.compile(r"!\w+!|[^\s!]+")
_DOMAIN = re.compile(r"\s*Domain\s+State\s*:\s*(?P<state>\S.*)", re.IGNORECASE)


@dataclass(frozen=True)
class ListedNode:
    """One node of the domain; `local` where the table marks it."""

    index: int
    ip: str
    status: str | None
    local: bool = False
    version: str | None = None
    hostname: str | None = None


@dataclass(frozen=True)
class ImexReading:
    """One answer. Pairs are (from, to, word as printed). The `-q` form tells `daemon_status` alone: what it does not
    count is None.
    """

    daemon_status: str | None = None
    domain_state: str | None = None
    n_nodes: int | None = None
    nodes: tuple[ListedNode, ...] = ()
    ready: tuple[int, ...] = ()
    not_ready: tuple[int, ...] = ()
    local_node: int | None = None
    matrix_size: tuple[int, int] | None = None
    non_connected_count: int | None = None
    non_connected_pairs: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True)
class _Matrix:
    rows: int = 0
    columns: int = 0
    cells: tuple[tuple[int, int, str], ...] = ()


def read(text: str) -> ImexReading:
    """The reading of one answer. Raises Unreadable when it holds neither a status word, nor nodes, nor their state."""
    stripped = text.strip()
    if _STATUS_WORD.fullmatch(stripped):
        return ImexReading(daemon_status=stripped)
    lines = text.splitlines()
    brace = text.find("{")
    if brace >= 0 and not any(_NODE.fullmatch(line) for line in lines):
        return _document(text[brace:])
    return _table(lines)


def _table(lines: list[str]) -> ImexReading:
    nodes: dict[int, ListedNode] = {}
    state: str | None = None
    matrix: list[str] = []
    for line in lines:
        node = _node(line)
        domain = _DOMAIN.fullmatch(line)
        if node is not None:
            nodes.setdefault(node.index, node)
        elif domain is not None:
            state = state or domain.group("state").strip()
        elif matrix or _MATRIX.fullmatch(line):
            matrix.append(line)
    if not nodes and state is None:
        raise Unreadable("no line 'Node #0 ...' and no 'Domain State:' in what should be an answer of nvidia-imex-ctl")
    return _reading(state, nodes.values(), _matrix(matrix))


def _node(line: str) -> ListedNode | None:
    found = _NODE.fullmatch(line)
    if found is None:
        return None
    columns = _COLUMN.split(" ".join(found.group("rest").split()))
    # Before the dash that stands before the address there is nothing, or a mark.
    lead = columns.pop(0) if not columns[0].strip("* ") and len(columns) > 1 else ""
    address = columns[0].strip("* ")
    if not address or len(address.split()) > 1:
        return None
    plain = [column for column in columns[1:] if not _FIELD.fullmatch(column.strip())]
    named = [_FIELD.fullmatch(column.strip()) for column in columns[1:]]
    values = {field.group("name").lower()[:4]: field.group("value").strip() for field in named if field}
    return ListedNode(
        index=int(found.group("index")),
        ip=address,
        status=(plain[0].strip() or None) if plain else None,
        local="*" in lead + columns[0],
        version=values.get("vers") or None,
        hostname=values.get("host") or None,
    )


def _matrix(lines: list[str]) -> _Matrix:
    """The connection matrix, whose first line names the columns; what follows its rows is passed over."""
    if not lines:
        return _Matrix()
    header = _MATRIX.fullmatch(lines[0])
    columns = [int(word) for word in (header.group("columns") if header else "").split() if _is_number(word)]
    rows: dict[int, list[str]] = {}
    for line in lines[1:]:
        row = _ROW.fullmatch(line)
        if row is not None:
            rows.setdefault(int(row.group("index")), _CELL.findall(row.group("cells")))
        elif line.strip():
            break
    cells = [
        (index, columns[place] if place < len(columns) else place, word)
        for index, words in rows.items()
        for place, word in enumerate(words)
    ]
    width = max([len(columns), *(len(words) for words in rows.values())])
    return _Matrix(len(rows), width, tuple(cells))


def _document(text: str) -> ImexReading:
    try:
        document, _end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the JSON of nvidia-imex-ctl does not parse: {error}") from None
    listed = _entries(_named(document, "nodes"))
    state = _text(_named(document, "status", "domainstate", "state"))
    if not listed and state is None:
        raise Unreadable("neither nodes nor a state in the JSON of nvidia-imex-ctl")
    nodes: list[ListedNode] = []
    cells: list[tuple[int, int, str]] = []
    widths: list[int] = []
    for index, entry in listed:
        if isinstance(entry, dict):
            nodes.append(_document_node(index, entry))
            known = _connections(entry)
            cells.extend((index, to, word) for to, word in known)
            widths.extend([len(known)] if known else [])
    return _reading(state, nodes, _Matrix(len(widths), max(widths, default=0), tuple(cells)))


def _document_node(index: int, entry: Mapping[str, Any]) -> ListedNode:
    return ListedNode(
        index=index,
        ip=_text(_named(entry, "host", "ip", "ipaddress", "address")) or "",
        status=_text(_named(entry, "status", "state")),
        local=_named(entry, "local", "islocal") is True,
        version=_text(_named(entry, "version")),
        hostname=_text(_named(entry, "hostname")),
    )


def _connections(entry: Mapping[str, Any]) -> list[tuple[int, str]]:
    listed = _entries(_named(entry, "connections"))
    words = [(to, _text(_named(cell, "status") if isinstance(cell, dict) else cell)) for to, cell in listed]
    return [(to, word) for to, word in words if word is not None]


def _entries(value: object) -> list[tuple[int, Any]]:
    """Numbered entries of an object whose keys are numbers, or of a list."""
    if isinstance(value, list):
        return list(enumerate(value))
    if isinstance(value, dict):
        return [(int(key), entry) for key, entry in value.items() if _is_number(key)]
    return []


def _named(entry: Mapping[str, Any], *names: str) -> Any:
    """The value of the first of these names; case and underscores in the keys of a document do not matter."""
    plain = {key.lower().replace("_", ""): value for key, value in entry.items()}
    return next((plain[name] for name in names if plain.get(name) is not None), None)


def _reading(state: str | None, nodes: Iterable[ListedNode], matrix: _Matrix) -> ImexReading:
    ordered = tuple(sorted(nodes, key=lambda node: node.index))
    apart = tuple(sorted(cell for cell in matrix.cells if cell[2].upper() not in _CONNECTED))
    return ImexReading(
        domain_state=state,
        n_nodes=len(ordered),
        nodes=ordered,
        ready=tuple(node.index for node in ordered if node.status == READY),
        not_ready=tuple(node.index for node in ordered if node.status != READY),
        local_node=next((node.index for node in ordered if node.local), None),
        matrix_size=(matrix.rows, matrix.columns),
        non_connected_count=len(apart),
        non_connected_pairs=apart,
    )


def _text(value: object) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 6  # noqa: PLR2004 - no domain has a million nodes
