# SPDX-License-Identifier: BSD-2-Clause
"""The tree that both long forms of nvidia-smi are read into: `-q -x` by elements, `-q` by indentation.

Private to llmgw and pure. Names are looked up by letters and digits alone, without case: `FB Memory Usage` of the text
and `fb_memory_usage` of the XML are one name.
"""

from __future__ import annotations

from typing import Iterator

DEPTH = 32
"""More levels than any driver nests; deeper text is not followed."""


def plain(name: str) -> str:
    """A name, or a path with slashes, as it is compared: `Health/Summary` is `health/summary`."""
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter == "/")


class Node:
    """A section or a line: its name as printed, its text without outer blanks, what is inside it in order."""

    __slots__ = ("children", "key", "name", "text")

    def __init__(self, name: str, text: str = "") -> None:
        self.name = name
        self.key = plain(name)
        self.text = text.strip()
        self.children: list[Node] = []

    def named(self, key: str) -> Iterator[Node]:
        """Every child of this name."""
        return (child for child in self.children if child.key == key)

    def find(self, *paths: str) -> Node | None:
        """The first node at one of these paths (compared forms with slashes); earlier paths are preferred."""
        for path in paths:
            node: Node | None = self
            for key in path.split("/"):
                node = next(node.named(key), None) if node is not None else None
            if node is not None:
                return node
        return None

    def leaves(self) -> dict[str, str]:
        """Text of everything below that holds nothing else, by path of printed names; the first of a path counts."""
        found: dict[str, str] = {}
        waiting = [(child.name, child) for child in reversed(self.children)]
        while waiting:
            path, node = waiting.pop()
            if node.children:
                waiting.extend((f"{path}/{child.name}", child) for child in reversed(node.children))
            else:
                found.setdefault(path, node.text)
        return found
