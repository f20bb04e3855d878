# SPDX-License-Identifier: Apache-2.0
"""Whatever the machine, its matrix reads back as what it is, in every shape; and no text makes the reader raise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, find, given, settings
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import topo, topo_affinity, topo_matrix, topo_p2p
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from tests.support import topo_texts
from tests.support.topo_texts import Box, printed

SHAPES: dict[str, Callable[[str], str]] = {
    "as printed": str,
    "underlined": topo_texts.underlined,
    "escape byte lost": lambda text: topo_texts.underlined(text, ""),
    "blanks up to tab stops": topo_texts.tabs_to_stops,
    "four blanks for a tab": topo_texts.tabs_to_four_blanks,
    "indented": topo_texts.indented,
    "indented, blanks up to tab stops": lambda text: topo_texts.indented(topo_texts.tabs_to_stops(text)),
    "header on the left": topo_texts.header_left,
    "header collapsed": topo_texts.header_collapsed,
    "header on two lines": topo_texts.header_on_two_lines,
    "quoted": topo_texts.quoted,
    "commented, blanks up to tab stops": lambda text: topo_texts.commented(topo_texts.tabs_to_stops(text)),
    "dashes below the header": topo_texts.underscored,
    "other output before": topo_texts.after_other_output,
    "command before": topo_texts.behind_the_command,
    "other matrices behind": topo_texts.before_another,
    "cells glued": topo_texts.glued,
    "cells glued, blanks up to tab stops": lambda text: topo_texts.tabs_to_stops(topo_texts.glued(text)),
}
ADAPTERS = ("mlx5_{}", "mlx5_bond_{}", "rocep{}s0f1", "ibp{}s0", "roceP6p{}s0", "mlx4_{}", "hfi1_{}")


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    year = draw(st.sampled_from([2017, 2021, 2022, 2024]))
    far = "SOC" if year == 2017 else "SYS"
    cards = draw(st.integers(1, 5) | st.just(11))
    adapters = [
        draw(st.sampled_from(ADAPTERS)).format(number) for number in range(draw(st.integers(0, 5) | st.just(11)))
    ]
    words = [["X"] * cards for _card in range(cards)]
    for first in range(cards):
        for second in range(first):
            word = draw(st.sampled_from(["NV1", "NV4", "NV18", "PIX", "PXB", "PHB", "NODE", far]))
            words[first][second] = words[second][first] = word
    distances = st.sampled_from(["PIX", "PXB", "PHB", "NODE", far])
    rows = [row + [draw(distances) for _adapter in adapters] for row in words]
    cpus = st.sampled_from(["0-7", "0,64", "0", "0,2,4,6,8,10", "0-63,128-191", "112-127,240-255", "", "N/A"])
    numa = st.sampled_from(["0", "1", "15", "0-3", "0,3-9,11-17", "N/A", ""])
    own = st.sampled_from(["N/A", "1", "9", ""])
    columns = [[draw(cells) for _card in range(cards)] for cells in (cpus, numa, own)]
    return Box(rows, adapters, columns[0], columns[1], columns[2], year)


def told(box: Box) -> list[Any]:
    """What the matrix of this machine says, card by card, and then pair by pair."""
    found: list[Any] = []
    for card in range(box.cards):
        cells = [None if cell in {"", "N/A"} else cell for cell in box.affinity(card)] + [None, None]
        own = None if cells[2] is None else int(cells[2])
        found.append((card, dict(zip(box.adapters, box.words[card][box.cards :], strict=True)), *cells[:2], own))
    pairs = [(first, second) for first in range(box.cards) for second in range(first + 1, box.cards)]
    return [*found, {pair: box.words[pair[0]][pair[1]] for pair in pairs}]


def read_back(text: str) -> list[Any]:
    read = topo.read(text)
    found: list[Any] = [
        (card.gpu, card.nics, card.cpu_affinity, card.numa_affinity, card.gpu_numa_id) for card in read.per_gpu
    ]
    return [*found, {tuple(pair): word for word, pairs in read.gpu_pairs_by_type.items() for pair in pairs}]


def holds(box: Box) -> bool:
    texts = [shape(printed(box)) for shape in SHAPES.values()] + [topo_texts.aligned(box), topo_texts.table(box)]
    return all(read_back(text) == told(box) for text in texts)


@given(boxes())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_matrix_reads_back_as_the_machine_it_is_of(box: Box) -> None:
    for name, shape in SHAPES.items():
        assert read_back(shape(printed(box))) == told(box), name
    assert read_back(topo_texts.aligned(box)) == told(box)
    assert read_back(topo_texts.table(box)) == told(box)


def by_words(matrix: topo_matrix.Matrix, row: topo_matrix.Row) -> dict[str, str]:
    """Affinity as a reader that splits at blanks reads it."""
    return dict(zip([name for name, _start in matrix.affinity], row.text[row.end :].split(), strict=False))


@pytest.mark.parametrize(
    ("module", "name", "defect"),
    [
        (topo_affinity, "cells", by_words),
        (topo_affinity, "_tabbed", lambda rest: rest.split()),
        (topo_affinity, "_UNHEADED", 1),
        (topo_affinity, "_between_tab_stops", lambda _row, _tokens: None),
        (topo_affinity, "_between_equal_gaps", lambda _row, _tokens: None),
        (topo_affinity, "_below", lambda _matrix, _row, _tokens: None),
        (topo_matrix, "_words", lambda token: [token]),
        (topo_matrix, "_other_labels", lambda _lines, _at: ()),
        (topo_matrix, "_restarts", lambda _line, _following: False),
        (topo_matrix, "_plain", str),
        (topo, "_legend", lambda _matrix: None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_defect_in_the_reader_is_seen(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, defect: Callable[..., Any] | int
) -> None:
    monkeypatch.setattr(module, name, defect)
    quick = settings(
        max_examples=500,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )

    def fails(box: Box) -> bool:
        with contextlib.suppress(Unreadable, ValueError, IndexError):
            return not holds(box)
        return True

    assert find(boxes(), fails, settings=quick).cards


MATRIX = printed(Box(topo_texts.uniform(3, "NV18", ("mlx5_0",)), ("mlx5_0",), cpus=["0-7", "", "8-15"]))
PIECES = st.sampled_from(
    [
        "GPU0",
        "GPU1\t",
        " X ",
        "NV18",
        "SYS",
        "NODENODE",
        "\t",
        "    ",
        "\n",
        "CPU Affinity",
        "NUMA",
        "0-9999999",
        "OK",
        "N/A",
    ]
)


@given(st.text() | st.lists(PIECES | st.text(max_size=3), max_size=40).map("".join))
@example("GPU0\nGPU0 X")
@example("GPU0 GPU1\nGPU0 X\nGPU9999 NV999")
def test_no_text_makes_the_readers_raise_anything_else(text: str) -> None:
    for reader in (topo, topo_p2p):
        with contextlib.suppress(Unreadable):
            reader.read(text)


@given(st.integers(0, len(MATRIX)), st.integers(0, len(MATRIX)), st.text(max_size=5) | PIECES)
def test_a_matrix_that_is_cut_or_changed_is_read_or_refused(first: int, second: int, put_in: str) -> None:
    for text in (MATRIX[:first], MATRIX[:first] + put_in + MATRIX[second:]):
        with contextlib.suppress(Unreadable):
            topo.read(text)


@given(st.integers(0, MATRIX.index("\n\nLegend")))
def test_a_cut_matrix_claims_no_pair_that_is_not_there(end: int) -> None:
    with contextlib.suppress(Unreadable):
        read = topo.read(MATRIX[:end])
        assert set(read.gpu_pairs_by_type) <= {"NV18"}
        assert all(card.cpu_affinity in {None, "0-7", "8-15", "0-", "8-", "0", "8", "8-1"} for card in read.per_gpu)
