# SPDX-License-Identifier: Apache-2.0
"""Names and sentences within GitHub's Markdown: shown as they are, they neither format, nor link, nor call anybody."""

from __future__ import annotations

import re

_FORMATS = re.compile(r"[\\`*_\[\]~]")
_IN_CODE = re.compile(r"[`\\|]")
_ZERO_WIDTH = "\u200b"
_BAR = r"\|"
_SCHEME = re.compile(r"://|(?i:www\.)")
_EMOJI = re.compile(r":(?=[\w+-]+:)")
_ISSUE = re.compile(r"\bGH-(?=\d)", re.IGNORECASE)
_LEADS = re.compile(r"(?:[-+]|[0-9]{1,9}[.)])(?=[ -]|$)")
"""What makes a list or a rule of a line."""
_COMMIT = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9A-Za-z]+-)*[0-9a-f]{7,40}(?![0-9A-Za-z])(?:-[0-9A-Za-z]+)*", re.IGNORECASE
)
"""Words with a part that may be the id of a commit, such as UUIDs."""
_DOLLAR = "<span>$</span>"
"""As GitHub's own documentation has it, so that no formula begins."""
_MOST = 300
"""Characters of one name or sentence; longer ones are cut."""


def plain(text: str) -> str:
    """The text for anywhere but within code: nothing in it is markup, a formula, an emoji, a mention, a reference to an
    issue or commit, or a link.
    """
    text = _line(text)
    lead = _LEADS.match(text)
    text = _EMOJI.sub(f":{_ZERO_WIDTH}", text)
    text = _ISSUE.sub(lambda found: f"{found.group()}{_ZERO_WIDTH}", text)
    text = _FORMATS.sub(lambda found: f"\\{found.group()}", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = text.replace("@", f"@{_ZERO_WIDTH}").replace("#", f"#{_ZERO_WIDTH}")
    text = _SCHEME.sub(lambda found: f"{found.group()[:-1]}{_ZERO_WIDTH}{found.group()[-1]}", text)
    if lead:
        text = f"{text[: lead.end() - 1]}\\{text[lead.end() - 1 :]}"
    # As code they are no links, and copied they are what they were.
    return _COMMIT.sub(r"`\g<0>`", text).replace("$", _DOLLAR)


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
