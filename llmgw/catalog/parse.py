# SPDX-License-Identifier: Apache-2.0
"""A file's bytes as a tree: plain data, a place for every part, and each mistake that is YAML's, not the catalog's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from llmgw.catalog import codes, scalars
from llmgw.catalog.syntax import compose
from llmgw.catalog.tree import Path, Spot, Tree
from llmgw.errors import LlmgwError, Where

MAX_PARTS = 200_000
"""Values in one file after aliases are expanded: far above any catalog, far below what exhausts memory."""

_CORE = "tag:yaml.org,2002:"
_MERGE = "<<"
_ALL: frozenset[Path] = frozenset({()})


@dataclass(frozen=True, slots=True)
class Parsed:
    """One file. `broken` are the paths of what could not be read, `()` for all of it."""

    path: str
    tree: Tree
    errors: tuple[LlmgwError, ...] = ()
    broken: frozenset[Path] = frozenset()

    @property
    def empty(self) -> bool:
        """Whether the file holds nothing but comments."""
        return not self.broken and self.tree.data is None


def parse(path: str, content: bytes) -> Parsed:
    """What a file says. Never raises: whatever is wrong with the bytes is among the errors."""
    try:
        node = compose(path, content)
    except LlmgwError as error:
        return Parsed(path, Tree({}), (error,), _ALL)
    builder = _Builder(path)
    try:
        data = builder.build(node, (), None) if node is not None else None
    except _TooLarge as error:
        where = builder.place(error.node)
        why = f"the file unfolds to more than {MAX_PARTS:,} values: aliases repeat each other"
        bomb = LlmgwError(codes.SYNTAX, why, where=where, fix="Write the values out, or use fewer aliases.")
        return Parsed(path, Tree({}), (bomb,), _ALL)
    if data is not None and not isinstance(data, dict):
        builder.fail(
            node, "the top of a catalog is `key: value` lines, not a list or a single value", "Begin with `version: 1`."
        )
        return Parsed(path, Tree({}), tuple(builder.errors), _ALL)
    return Parsed(path, Tree(data, builder.spots), tuple(builder.errors), frozenset(builder.broken))


class _TooLarge(Exception):  # noqa: N818 - leaves this module as an LlmgwError
    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node


@dataclass(slots=True)
class _Builder:
    path: str
    spots: dict[Path, Spot] = field(default_factory=dict)
    errors: list[LlmgwError] = field(default_factory=list)
    broken: set[Path] = field(default_factory=set)
    parts: int = 0
    open: list[int] = field(default_factory=list)

    def place(self, node: Node) -> Where:
        mark = node.start_mark
        return Where(self.path, mark.line + 1, mark.column + 1)

    def fail(self, node: Node | None, why: str, fix: str, code: str = codes.SYNTAX) -> None:
        self.errors.append(LlmgwError(code, why, where=self.place(node) if node else self.path, fix=fix))

    def build(self, node: Node, path: Path, key: Node | None) -> Any:
        self.parts += 1
        if self.parts > MAX_PARTS:
            raise _TooLarge(node)
        self.spots[path] = Spot(self.place(node), self.place(key) if key is not None else None)
        if id(node) in self.open:
            return self.broken_at(path, node, "this value contains itself through an alias", "Write the value out.")
        if node.ctag.handle is not None or not str(node.tag).startswith(_CORE):
            why, fix = f"the tag `{node.tag}` means nothing in a catalog", "Remove it, or put the value in quotes."
            return self.broken_at(path, node, why, fix)
        self.open.append(id(node))
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            if isinstance(node, SequenceNode):
                return [self.build(item, (*path, number), None) for number, item in enumerate(node.value)]
            return self._scalar(node) if isinstance(node, ScalarNode) else None
        finally:
            self.open.pop()

    def broken_at(self, path: Path, node: Node, why: str, fix: str) -> None:
        self.fail(node, why, fix)
        self.broken.add(path)

    def aside(self, node: Node, path: Path) -> tuple[Any, dict[Path, Spot]]:
        """A value and its spots, without a place in the tree yet."""
        mine, self.spots = self.spots, {}
        value = self.build(node, path, None)
        theirs, self.spots = self.spots, mine
        return value, theirs

    def _scalar(self, node: ScalarNode) -> Any:
        text = str(node.value)
        if any("\ud800" <= character <= "\udfff" or character == "\0" for character in text):
            why = "an escape in this text makes a character that no file or program can take"
            self.fail(node, why, "Remove the escape.")
            return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
        # What has no quotes is read by YAML 1.2 whatever a %YAML line says.
        return text if node.style is not None else scalars.plain(text)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        built: dict[str, Any] = {}
        seen: dict[str, Node] = {}
        for key, value in node.value:
            name = None if _is_merge(key) else self._name(key, path)
            if name is None:
                continue
            if name not in seen:
                seen[name] = key
                built[name] = self.build(value, (*path, name), key)
                continue
            why = f"`{name}` is written twice here (first at {self.place(seen[name])})"
            self.fail(key, why, "Remove one of the two, or give it another name.", codes.DUPLICATE_KEY)
            self.aside(value, (*path, name))
        for key, value in node.value:
            if _is_merge(key):
                self._merge(value, built, path)
        return built

    def _name(self, key: Node, path: Path) -> str | None:
        if not isinstance(key, ScalarNode):
            why = "a key must be text, not a mapping or a list; templates (`{{ name }}`) are not expanded here"
            self.broken_at(path, key, why, "Write the value itself, or put text with braces in quotes.")
            return None
        value = self._scalar(key)
        if isinstance(value, str):
            return value
        text = scalars.written(value) or str(key.value)
        if text == "":
            self.broken_at(path, key, "there is no key before this colon", "Write the key.")
            return None
        self.fail(key, f"the key {text} is no text", f"Put it in quotes: `'{text}':`.", codes.KEY)
        return text

    def _merge(self, node: Node, built: dict[str, Any], path: Path) -> None:
        sources = node.value if isinstance(node, SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, MappingNode) or id(source) in self.open:
                why = "`<<` takes a mapping, or a list of mappings, that is defined elsewhere"
                self.broken_at(path, source, why, "Point it to an anchor of a mapping.")
                continue
            # What is written out wins over what is merged, and an earlier source over a later one.
            merged, spots = self.aside(source, path)
            added = merged.keys() - built.keys()
            built.update({name: value for name, value in merged.items() if name in added})
            depth = len(path)
            self.spots.update({spot: at for spot, at in spots.items() if len(spot) > depth and spot[depth] in added})


def _is_merge(key: Node) -> bool:
    return isinstance(key, ScalarNode) and key.value == _MERGE and key.style is None
