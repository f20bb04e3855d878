# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from llmgw.catalog import scalars
from llmgw.catalog.parse import MAX_PARTS, Parsed, parse
from llmgw.errors import Where


def parsed(text: str | bytes) -> Parsed:
    return parse("f.yaml", text if isinstance(text, bytes) else text.encode())


def test_every_part_has_its_place() -> None:
    tree = parsed("models:\n  small:\n    path: m.gguf\n    aliases: [a, bb]\n").tree
    assert tree.data == {"models": {"small": {"path": "m.gguf", "aliases": ["a", "bb"]}}}
    assert tree.where(("models", "small", "path")) == Where("f.yaml", 3, 11)
    assert tree.where(("models", "small", "path"), key=True) == Where("f.yaml", 3, 5)
    assert tree.where(("models", "small", "aliases", 1)) == Where("f.yaml", 4, 18)
    assert tree.where(("models", "small", "hf_id")) == Where("f.yaml", 2, 3)
    assert tree.where(("nothing",)) == Where("f.yaml", 1, 1)


def test_columns_count_characters_and_not_bytes() -> None:
    assert parsed("{päth: 1, b: 2}").tree.where(("b",), key=True) == Where("f.yaml", 1, 11)


def test_an_alias_is_what_its_anchor_is() -> None:
    tree = parsed("a: &x {b: 1}\nc: *x\nd: &x 2\ne: *x\n").tree
    assert tree.data == {"a": {"b": 1}, "c": {"b": 1}, "d": 2, "e": 2}
    assert tree.where(("c", "b")) == Where("f.yaml", 1, 11)


def test_a_merge_adds_what_is_not_written_out() -> None:
    text = "x: &x {a: 1, b: {c: 1}}\ny: &y {a: 2, d: 2}\nz:\n  <<: [*x, *y]\n  b: {e: 3}\nw: {<<: *y}\n"
    tree = parsed(text).tree
    assert tree.data["z"] == {"a": 1, "b": {"e": 3}, "d": 2}
    assert tree.data["w"] == {"a": 2, "d": 2}
    assert tree.where(("z", "b", "e")) == Where("f.yaml", 5, 10)
    assert tree.where(("z", "d")) == Where("f.yaml", 2, 17)
    assert ("z", "b", "c") not in tree.spots


def test_a_quoted_merge_key_is_a_key() -> None:
    assert parsed("'<<': 1\n").tree.data == {"<<": 1}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("12", 12),
        ("-7", -7),
        ("0o17", 15),
        ("0x1F", 31),
        ("010", 10),
        ("1.50", 1.5),
        (".5", 0.5),
        ("2e3", 2000.0),
        ("-.inf", -math.inf),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2026-01-02", "2026-01-02"),
        ("'12'", "12"),
        ('"a\\tb"', "a\tb"),
        ("9" * 31, "9" * 31),
    ],
)
def test_scalars_are_read_by_yaml_1_2(written: str, value: object) -> None:
    found = parsed(f"a: {written}\n").tree.data["a"]
    assert found == value
    assert isinstance(found, type(value))


def test_a_yaml_1_1_directive_changes_no_value() -> None:
    assert parsed("%YAML 1.1\n---\na: no\nb: 0o7\nc: 1_0\n").tree.data == {"a": "no", "b": 7, "c": "1_0"}


def test_a_number_that_is_none_is_one() -> None:
    value = scalars.plain(".nan")
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "\ufeff# nothing\n"])
def test_a_file_without_content_is_empty(text: str) -> None:
    found = parsed(text)
    assert found.empty
    assert not found.errors


@pytest.mark.parametrize("text", ["a: 1\r\nb: 2\r\n", "\ufeffa: 1\nb: 2\n", "--- {a: 1, b: 2}\n...\n"])
def test_line_ends_marks_and_markers_make_no_difference(text: str) -> None:
    assert parsed(text).tree.data == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("content", "why", "where"),
    [
        (b"a: 1\nb: \xff\n", "not UTF-8", Where("f.yaml", 2, 4)),
        ("ä: \x00".encode(), "U+0000", Where("f.yaml", 1, 4)),
        (b"a: 1\n\x1b[31m", "U+001B", Where("f.yaml", 2, 1)),
        ("a: 1".encode("utf-16"), "UTF-16", Where("f.yaml")),
        (b"[" * 1200, "too deeply", Where("f.yaml")),
        (b"a: " + b"{a: " * 1200, "too deeply", Where("f.yaml")),
    ],
)
def test_bytes_that_are_no_text_are_named_with_their_place(content: bytes, why: str, where: Where) -> None:
    (error,) = parsed(content).errors
    assert why in error.why
    assert error.where == where


def test_aliases_that_repeat_each_other_are_refused_in_time_and_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (error,) = parsed("\n".join(lines)).errors
    assert f"{MAX_PARTS:,}" in error.why
    assert error.where is not None
    assert error.where.line == 1
