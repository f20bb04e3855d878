# SPDX-License-Identifier: Apache-2.0
"""Whatever a tool prints, a reader gives its reading or says that the text is unreadable, and soon.

LLMGW_FUZZ_SECONDS makes the damage go on for that long (`make fuzz`), with other examples every time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.kinds import KINDS, reading
from tests.support.seed_texts import SEEDS
from tests.unit.readings.corpus import items

FUZZ_S = float(os.environ.get("LLMGW_FUZZ_SECONDS", "0"))
SEARCH = settings() if FUZZ_S == 0 else settings(derandomize=False, database=None, max_examples=500)
TEXTS = {
    kind: [*SEEDS[kind], *(item.values[0].text for item in items(kind) if item.values[0] is not None)] for kind in KINDS
}
LONG = 300_000
LONGER = 1_000_000

# What numbers, words and structure of these texts may turn into.
ODD = [
    *(
        b"-1",
        b"0",
        b"00",
        b"9" * 30,
        b"9" * 5000,
        b"1" + b"0" * 400,
        b"1e9",
        b"0-999999",
        b"\xd9\xa4",
        b"NaN",
        b"Infinity",
    ),
    *(b"N/A", b"[N/A]", b"None", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n\n", b"\t\t", b"\x1b[4m", b"\xc2\xa0"),
    *(b"GPU0", b"GPU99999999", b"<gpu>", b"</gpu>", b"<!--", b"]]>", b"&a;", b"{", b"[", b'"', b" : ", b"Node #"),
    b"\xe2\x80\xa8",
]
PIECES = [
    *(
        "(",
        " ",
        "\t",
        "\n",
        "\r\n",
        "-\n",
        "a",
        "0",
        "-",
        ":",
        "<",
        "[",
        "{",
        '"',
        ", ",
        "|",
        "=",
        "\u00a0",
        " : ",
        "&a;",
    ),
    *(
        "<gpu>",
        "<a b='c'>",
        "<!--",
        "GPU0 ",
        "GPU 0: ",
        "MIG 1g.5gb Device 0: ",
        "\x1b[4m",
        "\\040",
        "Node #0 ",
        "N/A ",
    ),
    *("/sys/class/infiniband/", "X\t", "  Link 0: ", "NV18\t", "1 2 0:1 / / - a b c\n"),
]


def read(kind: str, text: str) -> object:
    """The reading, which must be JSON; None for a text that is unreadable. Whatever else is raised fails the test."""
    try:
        found = reading(kind, text)
    except Unreadable:
        return None
    json.dumps(found, allow_nan=False)
    return found


def for_a_while(search: Callable[[], None]) -> None:
    """One search, and more of them as long as the time for fuzzing allows."""
    deadline = time.monotonic() + FUZZ_S / len(KINDS)
    search()
    while time.monotonic() < deadline:
        search()


def edited(content: bytes, place: float, length: int, payload: bytes) -> bytes:
    """The content with some bytes at a place replaced."""
    begin = int(place * len(content))
    return content[:begin] + payload + content[begin + length :]


PLACES = st.floats(0, 1, exclude_max=True)
PAYLOADS = st.sampled_from(ODD) | st.binary(max_size=12)
EDITS = st.lists(st.tuples(PLACES, st.integers(0, 40), PAYLOADS), min_size=1, max_size=8)


def test_every_kind_has_seeds_that_its_reader_reads() -> None:
    assert set(SEEDS) == set(KINDS)
    assert [kind for kind in KINDS for text in SEEDS[kind] if read(kind, text) is None] == []


@pytest.mark.timeout(60 + FUZZ_S)
@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_to_a_text_ends_in_anything_but_unreadable(kind: str) -> None:
    @SEARCH
    @given(st.sampled_from(TEXTS[kind]), EDITS)
    def damage(text: str, edits: list[tuple[float, int, bytes]]) -> None:
        content = text.encode()
        for edit in edits:
            content = edited(content, *edit)
        read(kind, content.decode("utf-8", "replace"))

    for_a_while(damage)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_no_end_of_a_text_ends_in_anything_but_unreadable(kind: str, data: st.DataObject) -> None:
    content = data.draw(st.sampled_from(TEXTS[kind])).encode()
    for place in data.draw(st.lists(PLACES, min_size=3, max_size=3)):
        read(kind, content[: int(place * len(content))].decode("utf-8", "replace"))


@pytest.mark.parametrize("kind", KINDS)
@given(st.text() | st.binary().map(lambda content: content.decode("utf-8", "replace")))
def test_no_other_text_ends_in_anything_but_unreadable(kind: str, text: str) -> None:
    read(kind, text)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_lines_in_any_order_end_in_nothing_but_unreadable(kind: str, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([text for text in TEXTS[kind] if text]))
    lines = text.splitlines(keepends=True)[:400]
    chosen = data.draw(st.lists(st.sampled_from(lines), max_size=40))
    read(kind, "".join(chosen))


@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_of_another_kind_ends_in_nothing_but_unreadable(kind: str, other: str) -> None:
    for text in SEEDS[other]:
        read(kind, text)


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_text_takes_no_more_than_its_length(kind: str, piece: str) -> None:
    # Quadratic work on a text of this length takes minutes: the timeout of the test tells.
    many = piece * (LONG // len(piece))
    text = SEEDS[kind][0]
    half = len(text) // 2
    read(kind, text + many)
    read(kind, text[:half] + many + text[half:])


@pytest.mark.parametrize("piece", ["(", " ", "\t", "\n", "{", "[", "<a>", "a", "9", '{"a":', "GPU0\t"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_megabyte_of_one_thing_takes_no_more_than_its_length(kind: str, piece: str) -> None:
    read(kind, piece * (LONGER // len(piece)))


@pytest.mark.parametrize("kind", KINDS)
def test_no_reading_has_a_key_that_the_command_adds(kind: str) -> None:
    for text in SEEDS[kind]:
        assert "format_version" not in reading(kind, text)
