# SPDX-License-Identifier: Apache-2.0
"""Names and sentences within GitHub's Markdown: shown as they are, they neither format, nor link, nor call anybody."""

from __future__ import annotations

import re

_FORMATS = re.compile(r"[\\`*_\[\]~]")
_IN_CODE = re.compile(r"[`\\|]")
_ZERO_WIDTH = "\u200b"
_BAR = r"\|"
_SCHEME = re.compile(r"://|(?i:www\.)")
_MOST = 300
"""Characters of one name or sentence; longer ones are cut."""


def plain(text: str) -> str:
    """The text for anywhere but within code: nothing in it is markup, a mention, a reference to an issue, or a link."""
    text = _line(text)
    text = _FORMATS.sub(lambda found: f"\\{found.group()}", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = text.replace("@", f"@{_ZERO_WIDTH}").replace("#", f"#{_ZERO_WIDTH}")
    return _SCHEME.sub(lambda found: f"{found.group()[:-1]}{_ZERO_WIDTH}{found.group()[-1]}", text)


def code(text: str) -> str:
    """A name as code; plain where it has something in it that code cannot show."""
    line = _line(text)
    return plain(text) if not line or _IN_CODE.search(line) else f"`{line}`"


def row(*cells: str) -> str:
    """One row of a table, of cells that are Markdown already."""
    return f"| {' | '.join(cell.replace('|', _BAR) for cell in cells)} |"


def _line(text: str) -> str:
    """The text on one line, without what is no text, cut where it is very long."""
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}\u2026"
