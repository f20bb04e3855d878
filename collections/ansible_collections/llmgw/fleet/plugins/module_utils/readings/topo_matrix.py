# SPDX-License-Identifier: BSD-2-Clause
"""Finds the matrices of `nvidia-smi topo` in a text: which columns, which rows of cards, which lines follow.

Private to llmgw and pure. The text may be a paste: with terminal escapes (or their rest, `[4m`, where the escape byte
was lost), indented, quoted, a table with rules, tabs or blanks, broken lines, words glued together, a sentence or a
command before the header.
"""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple

AFFINITIES = ("cpu", "numa", "gpunuma")
TOPOLOGY_WORDS = r"NV[0-9]{1,3}|NODE|SYS|SOC|PIX|PXB|PHB|PSB|X"
_P2P_WORDS = r"CNS|GNS|TNS|NS|OK|DR|U"

_ESCAPE = re.compile(r"(?:\x1b|\u241b|\^\[)(?:\[[0-9;?]*[A-Za-z]|\([A-Z0-9])|\[[0-9]{1,3}(?:;[0-9]{1,3})*m")
_BLANK = re.compile(r"[\u00a0\u2000-\u200a\u202f\u3000]")
# Marks of a quotation or of a comment, blanks around them or none; of a table, the strokes between cells and the rules.
_QUOTED = re.compile(r"^[ \t]*(?:(?:>|(?:#|\*|//)(?=\s|$|GPU[0-9]))[ \t]*)+")
_STROKE = re.compile(r"[|\u2502\u2503]|\*\*")
_RULE = re.compile(r"[-=+|:\s\u2500-\u257f]*")
_GLUED = re.compile(rf"(?:{TOPOLOGY_WORDS})+")
_WORD = re.compile(TOPOLOGY_WORDS)
# A word of the driver that is not known here is a cell as well: upper case, and never a list of CPUs.
_CELL = re.compile(rf"(?:{TOPOLOGY_WORDS}|{_P2P_WORDS})+|[A-Z][A-Z/0-9]{{0,7}}")
_REST = re.compile(rf"(?:{TOPOLOGY_WORDS}|{_P2P_WORDS})+|[0-9][0-9,-]*|N/A")
_TOKEN = re.compile(r"\S+")
_CARD = re.compile(r"GPU[0-9]{1,4}(?![0-9])")
_CARD_ROW = re.compile(rf"(?<!\S)(?P<label>GPU[0-9]{{1,4}})[ \t]+(?=(?:{TOPOLOGY_WORDS}|{_P2P_WORDS})+(?:\s|$))")
_OTHER_ROW = re.compile(r"[ \t>]*(?P<label>[A-Za-z][\w.:-]*)[ \t]+(?P<cells>\S.*)")
_LEGEND = re.compile(r"[ \t>]*(?:NIC )?Legend\b", re.IGNORECASE)
# The last heading may be cut, as the line is that a narrow window cut.
_AFFINITY = re.compile(
    r"(?P<cpu>CPU\s*Affinity|CPU(?:\s+A[a-z]*)?\s*$)|(?P<numa>NUMA\s*Affinity|NUMA(?:\s+A[a-z]*)?\s*$|NUMA(?=\s))"
    r"|(?P<gpunuma>GPU\s*NUMA\s*ID|GPU\s+NUMA(?=\s)|GPU(?:\s+NU?M?A?(?:\s+I)?)?\s*$)"
)
_HEADING = re.compile(r"(?:GPU[0-9]+|NIC[0-9]+|mlx[0-9]\w+|CPU|NUMA|GPU|Affinity|ID|[a-z]+\w*[0-9]\w*)+")
_AFFINITY_BEGINS = r"CPU\s*Affinity|NUMA\s*Affinity|GPU\s*NUMA"
_USUAL = r"GPU[0-9]{1,4}|NIC[0-9]{1,4}|mlx[0-9]_(?:bond_?)?[0-9]{1,4}"
_NAME = re.compile(rf"\S+?(?=\s|$|GPU[0-9]|NIC[0-9]|{_AFFINITY_BEGINS})")


class Row(NamedTuple):
    """A card's row: its number, its line from the label on, and the column in which that begins.

    `cells` are the words of its pairs with other devices, `end` is where in `text` the last of them ends.
    """

    number: int
    text: str
    indent: int
    cells: tuple[str, ...]
    starts: tuple[int, ...]
    end: int


class Matrix(NamedTuple):
    """One matrix. `columns` are labels of devices; `affinity` are the other columns present, with their place."""

    columns: tuple[str, ...]
    column_starts: tuple[int, ...]
    affinity: tuple[tuple[str, int], ...]
    rows: tuple[Row, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def cards(self) -> tuple[int, ...]:
        """Numbers of the card columns, in header order."""
        return tuple(int(label[3:]) for label in self.columns if _CARD.fullmatch(label))

    @property
    def is_p2p(self) -> bool:
        """Whether it is one of `topo -p2p`: no affinity, no adapters, and no word of `topo -m` off the diagonal."""
        if self.affinity or len(self.cards) < len(self.columns):
            return False
        words = {word for row in self.rows for word in row.cells}
        return not any(_WORD.fullmatch(word) for word in words - {"X"})


class _Header(NamedTuple):
    columns: tuple[str, ...]
    starts: tuple[int, ...]
    affinity: tuple[tuple[str, int], ...]
    next_line: int


def matrices(text: str) -> Iterator[Matrix]:
    """The matrices of the text, first one first; a header without a card's row under it is none."""
    lines = [_plain(line) for line in text.splitlines()]
    at = 0
    while at < len(lines):
        if not _is_header(lines, at):
            at += 1
            continue
        begun = at
        others = _other_labels(lines, at)
        header = _header(lines, at, others)
        rows, at = _rows(lines, header)
        after = at
        while at < len(lines) and not _is_header(lines, at) and _CARD_ROW.search(lines[at]) is None:
            at += 1
        cards = [_row(match, line, len(header.columns)) for match, line in rows]
        if cards and text.endswith(cards[-1].text) and len(cards[-1].cells) < len(header.columns):
            cards[-1] = _without_last_cell(cards[-1])
        yield Matrix(
            columns=header.columns,
            column_starts=header.starts,
            affinity=header.affinity,
            rows=tuple(row for row in cards if len(row.cells) >= sum(map(_is_card, header.columns))),
            before=tuple(lines[:begun]),
            after=tuple(lines[after:at]),
        )


def _plain(line: str) -> str:
    """The line without what a terminal, a quotation or a table adds; what is left keeps its column."""
    line = _BLANK.sub(" ", _ESCAPE.sub("", line))
    if _RULE.fullmatch(line):
        return ""
    line = _STROKE.sub(lambda stroke: "  " if stroke.group(0) == "**" else "\t", line)
    return _QUOTED.sub(lambda marks: "".join(mark if mark == "\t" else " " for mark in marks.group(0)), line)


def _is_card(label: str) -> bool:
    return _CARD.fullmatch(label) is not None


def _is_header(lines: list[str], at: int) -> bool:
    """Whether a header begins in this line: card labels, no cells, and the next lines are more of it or a row."""
    line = lines[at]
    if _CARD.search(line) is None or _CARD_ROW.search(line) is not None:
        return False
    for following in lines[at + 1 :]:
        if _CARD_ROW.search(following) is not None:
            return True
        if following.strip() and not _continues_header(following):
            return False
        if following.strip() and _restarts(line, following):
            return False
    return False


def _restarts(line: str, following: str) -> bool:
    """Whether the second line names the first card of the first one again: then the first was no header."""
    first = _CARD.search(line)
    again = _CARD.search(following)
    return first is not None and again is not None and first.group(0) == again.group(0)


def _continues_header(line: str) -> bool:
    return all(_HEADING.fullmatch(token.group(0)) for token in _TOKEN.finditer(line))


def _other_labels(lines: list[str], at: int) -> tuple[str, ...]:
    """Labels of the adapters' rows below a header: they are its columns too, and never glued together."""
    found: list[str] = []
    for line in lines[at + 1 :]:
        if _LEGEND.match(line):
            break
        match = _OTHER_ROW.match(line)
        if match is None or _is_card(match.group("label")) or _CELL.fullmatch(match.group("label")):
            continue
        if all(_CELL.fullmatch(cell) for cell in match.group("cells").split()):
            found.append(match.group("label"))
    return tuple(dict.fromkeys(found))


def _header(lines: list[str], at: int, others: tuple[str, ...]) -> _Header:
    text = lines[at]
    at += 1
    while at < len(lines) and _CARD_ROW.search(lines[at]) is None:
        text = f"{text} {lines[at].strip()}" if lines[at].strip() else text
        at += 1
    first = _CARD.search(text)
    place = first.start() if first is not None else 0
    labels = "|".join([re.escape(label) for label in sorted(others, key=len, reverse=True)] + [_USUAL])
    label = re.compile(rf"(?:{labels})(?=\s|$|{labels}|{_AFFINITY_BEGINS})")
    columns: list[str] = []
    starts: list[int] = []
    affinity: dict[str, int] = {}
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        heading = _AFFINITY.match(text, place)
        if heading is not None and heading.lastgroup is not None:
            affinity.setdefault(heading.lastgroup, place)
        else:
            heading = label.match(text, place) or _NAME.match(text, place)
            columns.append(heading.group(0) if heading is not None else text[place:])
            starts.append(place)
        place = heading.end() if heading is not None else len(text)
    present = tuple((name, affinity[name]) for name in AFFINITIES if name in affinity)
    return _Header(tuple(columns), tuple(starts), present, at)


def _rows(lines: list[str], header: _Header) -> tuple[list[tuple[re.Match[str], str]], int]:
    """The cards' rows below a header, each with its line and what of it a narrow window pushed to the next lines."""
    found: list[tuple[re.Match[str], str]] = []
    seen: set[str] = set()
    at = header.next_line
    while at < len(lines):
        line = lines[at]
        match = _CARD_ROW.search(line)
        if match is not None and match.group("label") in seen:
            break
        if _LEGEND.match(line) or (match is None and _is_header(lines, at)):
            break
        if match is not None:
            seen.add(match.group("label"))
            found.append((match, line))
        elif found and _continues_row(line, found[-1][1], header):
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        at += 1
    return found, at


def _continues_row(line: str, row: str, header: _Header) -> bool:
    """Whether the line is the rest of a row that lacks cells: nothing but cells and lists of numbers."""
    tokens = line.split()
    there = sum(len(_words(token)) for token in row.split())
    if not tokens or there > len(header.columns) + len(header.affinity):
        return False
    return all(_REST.fullmatch(token) for token in tokens)


def _without_last_cell(row: Row) -> Row:
    """The row without the cell in which the text ends: of what it says, the end may be missing."""
    return row._replace(cells=row.cells[:-1], starts=row.starts[:-1])


def _words(token: str) -> list[str]:
    """The cells that a token consists of: `NODENODE` is two."""
    return _WORD.findall(token) if _GLUED.fullmatch(token) else [token]


def _row(match: re.Match[str], line: str, width: int) -> Row:
    """The row with at most `width` cells; what is no cell ends them."""
    indent = match.start("label")
    text = line[indent:]
    cells: list[str] = []
    starts: list[int] = []
    end = match.end("label") - indent
    for token in _TOKEN.finditer(text, end):
        # Cells in excess belong to headings that could not be told apart; what follows them is affinity all the same.
        if (_CELL if len(cells) < width else _GLUED).fullmatch(token.group(0)) is None:
            break
        words = _words(token.group(0))
        cells.extend(words)
        starts.extend([token.start()] * len(words))
        end = token.end()
    number = int(match.group("label")[3:])
    return Row(number, text, indent, tuple(cells[:width]), tuple(starts[:width]), end)
