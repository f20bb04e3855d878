# SPDX-License-Identifier: Apache-2.0
"""Reading a body, against the standard library as the judge of what it says (G1, G8)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.wire.body import Asked, read_body
from llmgw.gateway.wire.refusal import Refusal

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KEYS = st.sampled_from(["model", "mode", "models", "messages", "stream", "x"]) | TEXT
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.just("model"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
PAIRS = st.lists(st.tuples(KEYS, VALUES), max_size=6)


def text_of(key: str, escaped: bool) -> str:
    return (
        '"' + "".join(f"\\u{ord(letter):04x}" for letter in key) + '"'
        if escaped and key == "model"
        else json.dumps(key)
    )


@st.composite
def documents(draw: st.DrawFn) -> str:
    """An object as a client might write it: keys in any order, twice, escaped, with spaces anywhere."""
    pairs = draw(PAIRS)
    names = draw(st.lists(TEXT, min_size=1, max_size=2))
    for name in names[: draw(st.integers(1, 2))]:
        pairs.insert(draw(st.integers(0, len(pairs))), ("model", name))
    space = st.sampled_from(["", " ", "\n\t", "\r\n"])
    ascii_only = draw(st.booleans())

    def spaced(text: str) -> str:
        return draw(space) + text + draw(space)

    fields = (
        f"{spaced(text_of(key, draw(st.booleans())))}:{spaced(json.dumps(value, ensure_ascii=ascii_only))}"
        for key, value in pairs
    )
    return spaced("{" + ",".join(fields) + "}")


def pairs_of(text: str) -> list[tuple[str, Any]]:
    """Top-level keys and values, duplicates kept."""
    found: list[list[tuple[str, Any]]] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found.append(pairs)
        return dict(pairs)

    json.loads(text, object_pairs_hook=keep)
    return found[-1]


@given(documents())
def test_one_model_is_read_as_python_reads_it_and_two_are_refused(text: str) -> None:
    models = [value for key, value in pairs_of(text) if key == "model"]
    asked = read_body(text.encode())
    if len(models) == 1 and isinstance(models[0], str):
        assert isinstance(asked, Asked)
        assert asked.model == models[0]
    else:
        assert isinstance(asked, Refusal)


@given(documents(), TEXT)
def test_a_splice_changes_the_model_and_nothing_else(text: str, name: str) -> None:
    asked = read_body(text.encode())
    if not isinstance(asked, Asked):
        return
    spliced = asked.with_model(name)
    before, after = pairs_of(text), pairs_of(spliced.decode())
    assert [(key, name if key == "model" else value) for key, value in before] == after
    marked = asked.with_model("a name that no document has")
    before_name, found, after_name = marked.partition(b'"a name that no document has"')
    assert found
    assert asked.data.startswith(before_name)
    assert asked.data.endswith(after_name)
    assert before_name + msgspec.json.encode(name) + after_name == spliced


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert isinstance(read_body(data), Asked | Refusal)


def test_stream_is_true_only_when_it_says_so() -> None:
    said = {b"true": True, b"false": False, b"null": False, b'"true"': False, b"1": False}
    for value, stream in said.items():
        asked = read_body(b'{"model":"m","stream":%b}' % value)
        assert isinstance(asked, Asked)
        assert asked.stream is stream


def test_the_word_model_elsewhere_does_not_mislead() -> None:
    tricky = (
        b'{"a":"model","b":{"x":1,"model":"inner"},"c":["model",{"model":1}],"model":"m",'
        b'"d":"\\"model\\":\\"x\\"","model2":"y","\\u006d":1}'
    )
    asked = read_body(tricky)
    assert isinstance(asked, Asked)
    assert asked.with_model("z") == tricky.replace(b'"model":"m"', b'"model":"z"')
