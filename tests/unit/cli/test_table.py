# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from llmgw.cli.table import lines_of, whole, wrapped

ROWS = [
    ("NODE", "DEVICES", "AGE"),
    ("n1", "8 x h200-141g (2 free), 2 x l40s-45g (2 free)", "30s"),
    ("node-2", "none", "-"),
]


def test_a_table_is_as_wide_as_it_is_where_nothing_limits_it() -> None:
    assert lines_of(ROWS) == [
        "NODE    DEVICES                                        AGE",
        "n1      8 x h200-141g (2 free), 2 x l40s-45g (2 free)  30s",
        "node-2  none                                           -",
    ]


def test_a_long_cell_is_broken_between_items_before_it_is_broken_between_words() -> None:
    assert lines_of(ROWS, 50, breakable=(1,))[1:3] == [
        "n1      8 x h200-141g (2 free),                30s",
        "        2 x l40s-45g (2 free)",
    ]
    assert lines_of(ROWS, 30, breakable=(1,))[1:5] == [
        "n1      8 x h200-141g (2   30s",
        "        free),",
        "        2 x l40s-45g (2",
        "        free)",
    ]


@pytest.mark.parametrize("width", [30, 40, 58, 80])
def test_nothing_is_cut_and_lines_fit_where_their_words_allow_it(width: int) -> None:
    lines = lines_of(ROWS, width, breakable=(1,))
    assert all(len(line) <= width for line in lines)
    words = sorted(" ".join(cell for row in ROWS for cell in row).split())
    assert sorted(" ".join(lines).split()) == words


def test_columns_that_cannot_be_broken_keep_their_width() -> None:
    assert [line.split() for line in lines_of(ROWS, 10)] == [line.split() for line in lines_of(ROWS)]
    assert [line.split()[-1] for line in lines_of(ROWS, 10, breakable=(1,)) if "n" in line[:2]] == ["30s", "-"]


def test_what_is_whole_is_broken_only_after_all_else_and_after_columns_moved_together() -> None:
    rows = [("NODE", "DEVICES", "DISK"), ("n1", f"{whole('8 x h200-141g')} {whole('(2 free)')}", "40 GB")]
    assert lines_of(rows)[1] == "n1    8 x h200-141g (2 free)  40 GB"
    assert lines_of(rows, 26, breakable=(1, 2))[1:] == ["n1    8 x h200-141g  40 GB", "      (2 free)"]
    assert lines_of(rows, 24, breakable=(1, 2))[1:] == ["n1   8 x h200-141g 40 GB", "     (2 free)"]
    assert lines_of(rows, 17, breakable=(1, 2))[1:] == ["n1   8 x       40", "     h200-141g GB", "     (2 free)"]
    assert wrapped(f"devices {whole('8 x l40s')}", 10) == ["devices", "8 x l40s"]


def test_a_cell_may_be_empty_and_a_word_longer_than_its_column() -> None:
    assert lines_of([("A", "B"), ("", "x" * 20)], 5, breakable=(0, 1)) == ["A B", f"  {'x' * 20}"]


def test_text_is_wrapped_with_an_indent_and_words_stay_whole() -> None:
    assert wrapped("one two three", 7, "  ") == ["one two", "  three"]
    assert wrapped("0000:1a:00.0-is-no-place-to-break", 10) == ["0000:1a:00.0-is-no-place-to-break"]
