# SPDX-License-Identifier: Apache-2.0
"""Matrices of `nvidia-smi topo` for machines that do not exist, as drivers print and people paste them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""
P2P_LEGEND = """
Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  NS   = Not supported
"""


@dataclass(frozen=True)
class Box:
    """A machine. `words` has a row for each card, with the word for each other card and then for each adapter.

    `year` is the driver's: 2017 has CPU affinity alone, 2021 NUMA too, 2022 numbers the adapters and lists their names
    below, 2024 has the card's own NUMA node.
    """

    words: Sequence[Sequence[str]]
    adapters: Sequence[str] = ()
    cpus: Sequence[str] = ()
    numa: Sequence[str] = ()
    card_numa: Sequence[str] = ()
    year: int = 2024
    label: str = field(default="NIC")

    @property
    def cards(self) -> int:
        return len(self.words)

    @property
    def adapter_labels(self) -> list[str]:
        return list(self.adapters) if self.year < 2022 else [f"NIC{number}" for number in range(len(self.adapters))]

    @property
    def headings(self) -> list[str]:
        return ["CPU Affinity", *(["NUMA Affinity"] if self.year > 2017 else []), *self._last]

    @property
    def _last(self) -> list[str]:
        return ["GPU NUMA ID"] if self.year >= 2024 else []

    def affinity(self, card: int) -> list[str]:
        """The cells below the headings."""
        cells = [_at(self.cpus, card, "0-7"), _at(self.numa, card, "0"), _at(self.card_numa, card, "N/A")]
        return cells[: len(self.headings)]


def _at(cells: Sequence[str], card: int, otherwise: str) -> str:
    return cells[card] if card < len(cells) else otherwise


def uniform(cards: int, word: str = "NV18", adapters: Sequence[str] = (), distance: str = "NODE") -> list[list[str]]:
    """Words of a machine in which all pairs are alike."""
    return [
        ["X" if other == card else word for other in range(cards)] + [distance] * len(adapters) for card in range(cards)
    ]


def printed(box: Box) -> str:
    """What the tool prints, with its tabs."""
    labels = [f"GPU{card}" for card in range(box.cards)] + box.adapter_labels
    lines = ["\t" + "\t".join([*labels, *box.headings])]
    for card in range(box.cards):
        pairs = [" X " if word == "X" else word for word in box.words[card]]
        lines.append("\t".join([f"GPU{card}", *pairs, *_with_unheaded(box.affinity(card))]))
    for row, label in enumerate(box.adapter_labels):
        to_cards = [box.words[card][box.cards + row] for card in range(box.cards)]
        to_adapters = [" X " if row == other else "SYS" for other in range(len(box.adapters))]
        lines.append("\t".join([label, *to_cards, *to_adapters, *[""] * (len(box.headings) + (box.year >= 2024))]))
    return "\n".join(lines) + "\n" + LEGEND + _adapter_legend(box)


def _with_unheaded(cells: list[str]) -> list[str]:
    return [*cells[:2], "", cells[2]] if len(cells) > 2 else cells


def _adapter_legend(box: Box) -> str:
    if box.year < 2022 or not box.adapters:
        return ""
    named = zip(box.adapter_labels, box.adapters, strict=True)
    return "\nNIC Legend:\n\n" + "".join(f"  {label}: {device}\n" for label, device in named)


def aligned(box: Box) -> str:
    """The matrix as a table whose cells stand below their headings, as an editor makes it."""
    labels = [f"GPU{card}" for card in range(box.cards)] + box.adapter_labels
    rows = [["", *labels, *box.headings]]
    rows += [[f"GPU{card}", *box.words[card], *box.affinity(card)] for card in range(box.cards)]
    widths = [max(len(row[column]) for row in rows) + 3 for column in range(len(rows[0]))]
    lines = ["".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n" + LEGEND + _adapter_legend(box)


def table(box: Box, rule: str = "|", mark: str = "") -> str:
    """The matrix as a document shows it, with strokes between cells and a rule below the header or all lines."""
    labels = [f"GPU{card}" for card in range(box.cards)] + box.adapter_labels
    rows = [["Device", *labels, *box.headings]]
    rows += [[f"{mark}GPU{card}{mark}", *box.words[card], *box.affinity(card)] for card in range(box.cards)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    ruled = rule + rule.join("-" * (width + 2) for width in widths) + rule
    lines = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows]
    lines = [lines[0], ruled, *(lines[1:] if rule == "|" else [part for line in lines[1:] for part in (line, ruled)])]
    return "\n".join(lines) + "\n" + LEGEND + _adapter_legend(box)


def p2p(cards: int, word: str = "OK") -> str:
    """What `topo -p2p` prints."""
    lines = [" \t" + "".join(f"GPU{card}\t" for card in range(cards))]
    lines += [
        f" GPU{card}\t" + "".join(f"{'X' if card == other else word}\t" for other in range(cards))
        for card in range(cards)
    ]
    return "\n".join(lines) + "\n" + P2P_LEGEND


def _first_line(text: str, change: Callable[[str], str]) -> str:
    first, _newline, rest = text.partition("\n")
    return f"{change(first)}\n{rest}"


def underlined(text: str, escape: str = "\x1b") -> str:
    """With the header underlined for a terminal; `escape` is '' where a paste lost that byte."""
    return _first_line(text, lambda line: f"\t{escape}[4m{line.strip()}{escape}[0m")


def tabs_to_stops(text: str) -> str:
    """As a terminal shows it: blanks up to every eighth column."""
    return text.expandtabs(8)


def tabs_to_four_blanks(text: str) -> str:
    """As a chat shows it: four blanks for every tab."""
    return text.replace("\t", "    ")


def indented(text: str) -> str:
    return "".join(f"    {line}" for line in text.splitlines(keepends=True))


def quoted(text: str) -> str:
    """As an answer by mail cites it, with no blank behind the mark."""
    return "".join(f">{line}" for line in text.splitlines(keepends=True))


def commented(text: str) -> str:
    """As a script shows what a command prints."""
    return "# nvidia-smi topo -m\n" + "".join(f"# {line}" for line in text.splitlines(keepends=True))


def underscored(text: str) -> str:
    """With a line of dashes below the header."""
    return _first_line(text, lambda line: f"{line}\n{'-' * len(line)}")


def header_left(text: str) -> str:
    """The header begins like a row of the first card."""
    return _first_line(text, str.lstrip)


def header_collapsed(text: str) -> str:
    """The header lost its tabs."""
    return _first_line(text, lambda line: line.replace("\t", ""))


def header_on_two_lines(text: str) -> str:
    return _first_line(text, lambda line: line.replace("GPU0\t", "GPU0\n", 1))


def after_other_output(text: str) -> str:
    before = "[ops@node ~]$ nvidia-smi topo -m\n76 NICs found in the topology, only displaying 56 in the matrix.\n"
    return f"{before}Neighbours of GPU0\n{text}"


def behind_the_command(text: str) -> str:
    return _first_line(text, lambda line: f"nvidia-smi topo -m           {line.lstrip()}")


def before_another(text: str) -> str:
    """Followed by matrices of another machine and of another kind."""
    return text + "\n" + p2p(3) + "\n" + printed(Box(uniform(2, "PHB"), cpus=["90-99"] * 2, numa=["7"] * 2))


def glued(text: str) -> str:
    """Cells of two neighbours stand together in some rows."""
    return re.sub(r"(?m)^(GPU[02]\t.*?)\b(NODE|SYS|PIX)\t(NODE|SYS|PIX)\b", r"\1\2\3", text)


def narrow(text: str, width: int = 60) -> str:
    """Every line is broken where a narrow window ends, between cells."""
    lines = []
    for line in text.expandtabs(8).splitlines():
        rest = line
        while len(rest) > width and " " in rest[:width].strip():
            at = rest.rindex(" ", 0, width)
            lines.append(rest[:at])
            rest = rest[at:]
        lines.append(rest)
    return "\n".join(lines) + "\n"
