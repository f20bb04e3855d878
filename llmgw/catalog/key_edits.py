# SPDX-License-Identifier: Apache-2.0
"""Adds a client's key to the text of a catalog file, or takes one out, and leaves every other line as it is.

The places come from the parser and the change is made in the text, so that comments, order, quotes and alignment stay
and a review shows the key alone. What comes out is read again: it says what the file said and the one change, or
nothing is changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

from llmgw.catalog import codes, scalars
from llmgw.catalog.compile import File
from llmgw.catalog.parse import parse
from llmgw.catalog.syntax import compose
from llmgw.errors import LlmgwError

KEYS = ("gateway", "keys")
_STEP = 2
_BOM = b"\xef\xbb\xbf"

Fields = Mapping[str, str | int | Sequence[str]]
Change = tuple[int, int, str]
"""What stands between two places in the text goes, and this comes."""


def with_key(file: File, name: str, fields: Fields) -> bytes:
    """The file's content with the key `name` in `gateway.keys`. Raises LlmgwError where it cannot be put in."""
    text, top = _read(file)
    data = _data(file)
    _inside(data)[name] = {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}
    changes = [_addition(text, top, (*KEYS, name), fields)] if isinstance(top, MappingNode) else []
    return _checked(file, text, changes, data, name)


def without_key(file: File, name: str) -> bytes:
    """The file's content without the key `name`, which is there. Raises LlmgwError where it cannot be taken out."""
    text, top = _read(file)
    data = _data(file)
    _inside(data).pop(name, None)
    return _checked(file, text, list(_removal(text, top, name)), data, name)


def has_key(file: File, name: str) -> bool:
    """Whether that file says something about the key."""
    return name in (_below(_data(file), KEYS) or {})


def place_for_keys(files: Sequence[File]) -> File:
    """The file that a new key belongs into: the first that has keys, else has settings of the gateway, else the main
    one.
    """
    for path in (KEYS, KEYS[:1]):
        for file in files:
            if _below(_data(file), path):
                return file
    return files[0]


# --- what is changed --------------------------------------------------------------------------------------------------


def _addition(text: str, top: MappingNode, names: tuple[str, ...], fields: Fields) -> Change:
    """Below the innermost of these mappings that is there, what is missing of the others."""
    node: MappingNode = top
    key: ScalarNode | None = None
    value: Node | None = None
    depth = 0
    while depth < len(names):
        key, value = _child(node, names[depth])
        if not isinstance(value, MappingNode) or not (value.value or value.flow_style):
            break
        node, depth = value, depth + 1
    if key is not None and isinstance(value, ScalarNode):
        # `keys:` with nothing behind it: what is written there, such as `null`, gives way.
        at = _line_end(text, key.end_mark.index)
        kept = text[value.end_mark.index : at]
        column = key.start_mark.column + _STEP
        return value.start_mark.index, at, f"{kept}{_block(text, at, _nested(names[depth + 1 :], fields), column)}"
    missing = _nested(names[depth:], fields)
    if node.flow_style:
        at = text.index("{", node.start_mark.index) + 1
        return at, at, _flow(missing)[1:-1] + (", " if node.value else "")
    column = node.value[0][0].start_mark.column
    last_key, last = node.value[-1]
    at = _past_comments(text, _end(text, last_key, last), column)
    if depth == len(KEYS) and isinstance(last, MappingNode) and last.flow_style:
        line = f"{' ' * column}{_flow(missing)[1:-1]}"
        return at, at, _lines(text, at, [line])
    gap = [""] if not depth else []
    return at, at, _block(text, at, missing, column, gap)


def _removal(text: str, top: Node | None, name: str) -> Iterator[Change]:
    holder, keys = None, top
    for step in KEYS:
        holder, keys = _child(keys, step)
    if holder is None or not isinstance(keys, MappingNode):
        return
    entries = [(key.value, key, value) for key, value in keys.value]
    at = next((number for number, entry in enumerate(entries) if entry[0] == name), None)
    if at is None:
        return
    _name, key, value = entries[at]
    if keys.flow_style:
        before, after = entries[at - 1] if at else None, entries[at + 1] if at + 1 < len(entries) else None
        end = max(value.end_mark.index, key.end_mark.index)
        if after is not None:
            yield key.start_mark.index, after[1].start_mark.index, ""
        else:
            yield key.start_mark.index if before is None else before[2].end_mark.index, end, ""
        return
    if len(entries) == 1:
        colon = text.index(":", holder.end_mark.index) + 1
        yield colon, colon, " {}"
    end = _past_comments(text, _end(text, key, value), key.start_mark.column + 1)
    yield _line_start(text, key.start_mark.index), end, ""


# --- as text ----------------------------------------------------------------------------------------------------------


def _nested(names: Sequence[str], fields: Fields) -> dict[str, Any]:
    data: dict[str, Any] = dict(fields)
    for name in reversed(names):
        data = {name: data}
    return data


def _block(text: str, at: int, data: dict[str, Any], column: int, before: Sequence[str] = ()) -> str:
    """The lines of a mapping whose keys begin in that column."""
    return _lines(text, at, [*before, *_rows(data, column)])


def _rows(data: dict[str, Any], column: int) -> Iterator[str]:
    for name, value in data.items():
        head = f"{' ' * column}{_scalar(name)}:"
        if isinstance(value, dict):
            yield head
            yield from _rows(value, column + _STEP)
        else:
            yield f"{head} {_flow(value)}"


def _lines(text: str, at: int, lines: Sequence[str]) -> str:
    """Lines to put in at a place where one begins, or after a last line without an end."""
    end = "\r\n" if "\r\n" in text else "\n"
    begin = end if at and text[at - 1] != "\n" else ""
    return begin + "".join(f"{line}{end}" for line in lines)


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(name)}: {_flow(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value) if isinstance(value, str) else json.dumps(value)


def _scalar(text: str) -> str:
    """Text that stays text: a name such as `null` or `12` gets quotes. Names and hashes have no other characters."""
    return text if isinstance(scalars.plain(text), str) else json.dumps(text)


# --- places -----------------------------------------------------------------------------------------------------------


def _read(file: File) -> tuple[str, Node | None]:
    return file.content.decode("utf-8-sig"), compose(file.path, file.content)


def _child(node: Node | None, name: str) -> tuple[ScalarNode | None, Node | None]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode) and key.value == name:
                return key, value
    return None, None


def _end(text: str, key: Node, value: Node) -> int:
    """Where the line after the last one of an entry begins."""
    while isinstance(value, CollectionNode) and value.start_mark.index >= key.end_mark.index and not value.flow_style:
        key, value = value.value[-1] if isinstance(value, MappingNode) else (key, value.value[-1])
    # What is elsewhere is an alias, and that stands in the line of the key.
    at = max(key.end_mark.index, value.end_mark.index if value.start_mark.index >= key.end_mark.index else 0)
    return at if at and text[at - 1] == "\n" else _line_end(text, at)


def _past_comments(text: str, at: int, column: int) -> int:
    """Where the last comment ends that follows at once, or after empty lines, and begins in that column or further on:
    it is about what stands before it.
    """
    past = at
    while at < len(text):
        end = _line_end(text, at)
        line = text[at:end].strip()
        if line and (not line.startswith("#") or text.index("#", at) - at < column):
            break
        at = end
        past = end if line else past
    return past


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


# --- what must come out -----------------------------------------------------------------------------------------------


def _data(file: File) -> dict[str, Any]:
    return parse(file.path, file.content).tree.data or {}


def _below(data: Any, path: Sequence[str]) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def _inside(data: dict[str, Any]) -> dict[str, Any]:
    """The keys in a file's data, which are put there if they are not."""
    for name in KEYS:
        there = data.get(name)
        data[name] = there if isinstance(there, dict) else {}
        data = data[name]
    return data


def _checked(file: File, text: str, changes: Sequence[Change], expected: dict[str, Any], name: str) -> bytes:
    for begin, end, new in sorted(changes, reverse=True):
        text = text[:begin] + new + text[end:]
    content = (_BOM if file.content.startswith(_BOM) else b"") + text.encode()
    found = parse(file.path, content)
    if not changes or found.errors or found.tree.data != expected:
        why = f"the key `{name}` cannot be changed here: `gateway` or `keys` is written in a way that is not understood"
        fix = "Write each key in lines of its own below `gateway:` and `keys:`, without aliases, or edit it yourself."
        raise LlmgwError(codes.FILE, why, where=file.path, fix=fix)
    return content
