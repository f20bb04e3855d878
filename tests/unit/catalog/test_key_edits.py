# SPDX-License-Identifier: Apache-2.0
"""A key is put into a file's text and taken out, and nothing else of it changes."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.catalog.compile import File
from llmgw.catalog.key_edits import Fields, has_key, place_for_keys, with_key, without_key
from llmgw.catalog.parse import parse
from llmgw.errors import LlmgwError

HASH = "0" * 62 + "a1"
FIELDS: Fields = {"sha256": HASH, "services": ("chat",), "requests_per_minute": 600}
BLOCK = [f"      sha256: {HASH}", "      services: [chat]", "      requests_per_minute: 600"]


def file(text: str) -> File:
    return File("catalog.yaml", text.encode())


def added(text: str, name: str = "web") -> list[str]:
    """The lines that putting the key in adds; that it changes no other is looked at here."""
    before = text.splitlines()
    after = with_key(file(text), name, FIELDS).decode().splitlines()
    changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert not [line for line in changes if line[0] == "-"], changes
    return [line[2:] for line in changes]


def keys_of(content: bytes) -> Any:
    found = parse("catalog.yaml", content)
    assert not found.errors
    return found.tree.data["gateway"]["keys"]


def test_a_first_key_comes_at_the_end_with_a_section_of_its_own() -> None:
    text = "version: 1\nservices:\n  chat:\n    profiles: p  # the one\n    # more: below\n# the end\n"
    assert added(text) == ["", "gateway:", "  keys:", "    web:", *BLOCK]
    assert with_key(file(text), "web", FIELDS).startswith(text.encode())


def test_keys_are_put_below_settings_that_are_there() -> None:
    text = "gateway:\n  listen: 0.0.0.0:80   # all\n\nservices: {}\n"
    assert added(text) == ["  keys:", "    web:", *BLOCK]
    assert with_key(file(text), "web", FIELDS).decode().splitlines()[1:3] == [text.splitlines()[1], "  keys:"]


@pytest.mark.parametrize("nothing", ["", " # none yet", " "])
@pytest.mark.parametrize("end", ["", "\n", "\nservices: {}\n"])
def test_keys_are_put_where_a_section_is_empty(nothing: str, end: str) -> None:
    assert added(f"gateway:{nothing}{end}") == ["  keys:", "    web:", *BLOCK]
    assert added(f"gateway:\n  keys:{nothing}{end}") == ["    web:", *BLOCK]


@pytest.mark.parametrize("nothing", ["null", "~", "{}", "{ }"])
def test_what_says_that_there_are_none_gives_way(nothing: str) -> None:
    for text in (f"gateway:\n  keys: {nothing}  # none\nfleet: {{}}\n", f"gateway: {nothing}  # none\nfleet: {{}}\n"):
        content = with_key(file(text), "web", FIELDS)
        assert keys_of(content) == {"web": {**FIELDS, "services": ["chat"]}}
        assert b"# none" in content


def test_a_key_follows_the_others_with_their_comments() -> None:
    text = f"gateway:\n    keys:\n        a:\n            sha256: {HASH}\n            # a's\n        # b\n\n# f\nf:\n"
    assert added(text) == ["        web:", *(f"    {line}" for line in BLOCK)]
    assert with_key(file(text), "web", FIELDS).decode().splitlines()[5:7] == ["        # b", "        web:"]


def test_a_key_is_written_like_the_one_before_it() -> None:
    text = f"gateway:\n  keys:\n    a: {{sha256: {HASH}}}\n"
    assert added(text) == [f"    web: {{sha256: {HASH}, services: [chat], requests_per_minute: 600}}"]
    flow = f"gateway: {{listen: '0.0.0.0:80', keys: {{a: {{sha256: {HASH}}}}}}}\n"
    assert set(keys_of(with_key(file(flow), "web", FIELDS))) == {"a", "web"}
    assert set(keys_of(with_key(file('{"version": 1, "services": {}}'), "web", FIELDS))) == {"web"}


@pytest.mark.parametrize("name", ["12", "1.5", "null", "true", "1e5", "0x1f", "no"])
def test_a_name_that_looks_like_something_else_stays_a_name(name: str) -> None:
    content = with_key(file("gateway:\n  keys:\n    a: {sha256: x}\n"), name, {"sha256": "1e" + "0" * 62})
    assert keys_of(content) == {"a": {"sha256": "x"}, name: {"sha256": "1e" + "0" * 62}}


def test_line_ends_and_a_byte_order_mark_stay() -> None:
    before = File("catalog.yaml", b"\xef\xbb\xbfversion: 1\r\nservices: {}\r\n")
    content = with_key(before, "web", FIELDS)
    assert content.startswith(before.content)
    assert content.count(b"\n") == content.count(b"\r\n")


def test_a_literal_text_before_it_is_not_lengthened() -> None:
    text = "services: {}\nx-notes: |\n  words\n\n"
    assert parse("f", with_key(file(text), "web", FIELDS)).tree.data["x-notes"] == "words\n"


@pytest.mark.parametrize(
    "text",
    [
        "x-k: &k\n  a: {sha256: x}\ngateway:\n  keys: *k\n",
        "x-g: &g {keys: {}}\ngateway: *g\n",
        "gateway:\n  keys: [a]\n",
        "gateway:\n  keys:\n    <<: *no\n",
    ],
)
def test_what_is_not_understood_is_left_alone_and_said(text: str) -> None:
    with pytest.raises(LlmgwError) as refused:
        with_key(file(text), "web", FIELDS)
    assert refused.value.where is not None


def test_a_key_is_taken_out_with_what_is_said_about_it_alone() -> None:
    text = (
        "gateway:\n  keys:\n    # first\n    a: {sha256: x}  # a's\n    b:\n      sha256: y\n      # b's\n    # third\n"
        "    c:\n      sha256: z\n\nfleet: {}\n"
    )
    assert without_key(file(text), "b").decode() == text.replace("    b:\n      sha256: y\n      # b's\n", "")
    assert without_key(file(text), "a").decode() == text.replace("    a: {sha256: x}  # a's\n", "")
    assert without_key(file(text), "c").decode() == text.replace("    c:\n      sha256: z\n", "")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "gateway:\n  keys:  # ours\n    a:\n      sha256: x\nfleet: {}\n",
            "gateway:\n  keys: {}  # ours\nfleet: {}\n",
        ),
        ("gateway:\n  keys: {a: {sha256: x}}\n", "gateway:\n  keys: {}\n"),
        ("gateway: {keys: {a: {sha256: x}, b: {}}}\n", "gateway: {keys: {b: {}}}\n"),
        ("gateway: {keys: {b: {}, a: {sha256: x}}}\n", "gateway: {keys: {b: {}}}\n"),
        ("gateway:\n  keys:\n    a: &k {sha256: x}\n    b: {}", "gateway:\n  keys:\n    b: {}"),
        (
            "x: &k {sha256: x}\ngateway:\n  keys:\n    a: *k\n    b: {}",
            "x: &k {sha256: x}\ngateway:\n  keys:\n    b: {}",
        ),
    ],
)
def test_the_last_key_leaves_an_empty_mapping_and_others_a_sound_one(text: str, left: str) -> None:
    assert without_key(file(text), "a").decode() == left


def test_an_anchor_that_others_use_is_not_taken_away() -> None:
    with pytest.raises(LlmgwError):
        without_key(file("gateway:\n  keys:\n    a: &k {sha256: x}\n    b: *k\n"), "a")


def test_new_keys_go_where_the_others_are() -> None:
    main, part, over = (
        File("catalog.yaml", b"version: 1\nservices: {}\n"),
        File("catalog.d/keys.yaml", b"gateway: {keys: {a: {sha256: x}}}\n"),
        File("catalog.overlay.yaml", b"gateway: {listen: '0.0.0.0:80'}\n"),
    )
    assert place_for_keys((main, part, over)) is part
    assert place_for_keys((main, over)) is over
    assert place_for_keys((main,)) is main
    assert has_key(part, "a")
    assert not has_key(main, "a")


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,5}", fullmatch=True)
SPACES = st.sampled_from(["", " # note", "\n", "\n      # deep", "\n    # level", "\n# top"])


@given(st.lists(st.tuples(NAMES, SPACES, st.booleans()), min_size=1, max_size=5, unique_by=lambda one: one[0]), NAMES)
def test_what_is_put_in_and_taken_out_again_leaves_the_file_as_it_was(
    entries: list[tuple[str, str, bool]], name: str
) -> None:
    lines = ["version: 1", "gateway:", "  keys:"]
    for key, space, block in entries:
        lines.append(f'    "{key}":\n      sha256: x{space}' if block else f'    "{key}": {{sha256: x}}{space}')
    before = file("\n".join([*lines, "services: {}", ""]))
    names = [key for key, _space, _block in entries]
    if name in names:
        after = File("catalog.yaml", without_key(before, name))
        assert set(keys_of(after.content) or {}) == set(names) - {name}
    else:
        after = File("catalog.yaml", with_key(before, name, FIELDS))
        assert set(keys_of(after.content)) == {*names, name}
        assert without_key(after, name) == before.content
