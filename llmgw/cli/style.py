# SPDX-License-Identifier: Apache-2.0
"""Lines as a terminal may see them: coloured where they begin with a plan symbol, and with nothing in them but text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TextIO

_COLOURS = {"+": "32", "&": "32", "~": "33", "^": "33", "=": "36", ">": "34", "-": "31", "!": "31;1", "@": "36"}
_NO_TEXT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and line feed, what breaks lines or turns the order of writing, halves of characters."""


def coloured(lines: Iterable[str], stream: TextIO | None) -> list[str]:
    """The lines, printable, coloured by their first character where the stream shows colour; none with NO_COLOR."""
    wanted = stream is not None and stream.isatty() and not os.environ.get("NO_COLOR")
    texts = map(_line, lines)
    return [f"\033[{_COLOURS[text[0]]}m{text}\033[0m" if wanted and text[:1] in _COLOURS else text for text in texts]


def page(lines: Iterable[str]) -> str:
    """The lines as one printable text. What breaks a line within one is escaped: a name must not pass for a row."""
    return "\n".join(map(_line, lines))


def printable(text: object) -> str:
    """The text with escapes for all that is no text: an engine's log or a node's facts must not steer a terminal."""
    return _NO_TEXT.sub(lambda found: f"\\u{ord(found.group()):04x}", str(text))


def _line(text: str) -> str:
    return printable(text).replace("\n", "\\u000a")
