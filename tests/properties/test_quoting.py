# SPDX-License-Identifier: Apache-2.0
"""Any text becomes exactly one word, as an independent reader of systemd's syntax reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from llmgw.errors import LlmgwError
from llmgw.units import quoting
from tests.support import systemd_syntax as systemd

NASTY = "%$\\\"'; \t\n\r#[]=\0\x01\x1b\x7f\x85\u2028\ufdd0\ufffe\ud800aZ0-@!:+{}~*é界🙂"
texts = st.one_of(st.text(), st.text(alphabet=NASTY), st.text(alphabet="%$\\\"' \n", max_size=6))
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)


def taken(text: str) -> bool:
    """Whether systemd has a way to say the text at all, by what the reader says without what quoting escapes."""
    try:
        systemd.words('"' + "".join(character for character in text if character not in '"\\\n\r') + '"')
    except systemd.NotTakenError:
        return False
    return True


def quoted(quote: Callable[[], str], text: str) -> str:
    """The quoted text; what is refused must be what systemd cannot take."""
    try:
        return quote()
    except LlmgwError:
        if taken(text):
            raise
        reject()


@given(texts)
@example(";")
@example("")
@example("a\\")
@example("$HOME %n ${X}")
@example("\x7f\x01")
def test_any_text_is_one_argument(text: str) -> None:
    word = quoted(lambda: quoting.word(text), text)
    assert "\n" not in word
    assert systemd.command(f"/x {word} end") == ["/x", text, "end"]


@given(st.lists(st.text(alphabet="ab %$\\\"';\n"), max_size=5))
def test_a_list_of_texts_is_that_list_of_arguments(arguments: list[str]) -> None:
    assert systemd.command(" ".join(["/x", *map(quoting.word, arguments)])) == ["/x", *arguments]


@given(names, texts)
@example("A", "b=c")
@example("A", "")
@example("A", " %h ")
def test_any_text_is_the_value_of_one_variable(name: str, text: str) -> None:
    value = quoted(lambda: quoting.variable(name, text), text)
    assert systemd.assignment(value) == (name, text)


@given(st.text(alphabet="/aé %$;#").map(lambda path: f"/{path}"))
@example("/opt/$HOME/50% sure")
def test_any_path_that_systemd_can_start_is_the_program(path: str) -> None:
    assert systemd.command(f"{quoting.program(path)} x") == [path, "x"]


@pytest.mark.parametrize("path", ["", "engine", "-/x", "@/x", "/a'b", '/a"b', "/a\\b", "/a\nb", "/a\x7f"])
def test_what_systemd_cannot_start_is_refused_before_it_is_written(path: str) -> None:
    with pytest.raises(LlmgwError, match="systemd cannot start"):
        quoting.program(path)


@given(texts)
@example("$HOME/50% full")
def test_any_folder_of_a_home_is_one_argument_that_begins_with_the_managers_home(rest: str) -> None:
    word = quoted(lambda: quoting.home_word(f"~/{rest}"), rest)
    assert word.count("%h") - word.count("%%h") >= 1
    assert systemd.command(f"/x {word.replace('%h', '/home/op', 1)}") == ["/x", f"/home/op/{rest}"]


@given(st.text(alphabet="/aé %$;#"))
def test_any_folder_of_a_home_is_the_end_of_a_line(rest: str) -> None:
    line = quoting.home_line(f"~/{rest}x")
    assert systemd.specifiers(line.removeprefix("%h")) == f"/{rest}x"
    assert line.startswith("%h/")


@given(st.text(alphabet="/aé %$;#").map(lambda path: f"/{path}"))
def test_any_folder_that_may_be_written_to_is_one_word(path: str) -> None:
    (word,) = systemd.words(quoting.writable(path))
    assert systemd.specifiers(word) == f"-{path}"


@pytest.mark.parametrize("path", ["", "cache", "/a'b", '/a"b', "/a\\b", "/a\nb", "/a\x7f"])
def test_a_folder_that_systemd_cannot_grant_is_refused_before_it_is_written(path: str) -> None:
    with pytest.raises(LlmgwError, match="systemd cannot grant"):
        quoting.writable(path)


@given(st.text())
def test_a_line_is_one_line_without_specifiers(text: str) -> None:
    line = quoting.line(text)
    assert "\n" not in line
    assert systemd.specifiers(line) is not None


@pytest.mark.parametrize(
    "broken",
    [
        lambda text: f'"{text}"',
        lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"',
        lambda text: quoting.word(text).replace("$$", "$"),
        lambda text: text.replace("%", "%%").replace("$", "$$"),
        lambda text: quoting.word(text).strip('"'),
        lambda text: text if text == ";" else quoting.word(text),
    ],
    ids=["quotes alone", "no marks doubled", "no dollars doubled", "no quotes", "quotes taken off", "bare semicolon"],
)
def test_the_reader_finds_every_kind_of_wrong_quoting(broken: Callable[[str], str]) -> None:
    found = 0
    for text in ("a b", '"', "\\", "50%n", "$HOME", "x\ny", "", "it's", "%%", "$$", ";"):
        try:
            found += systemd.command(f"/x {broken(text)}") != ["/x", text]
        except systemd.NotTakenError:
            found += 1
    assert found
