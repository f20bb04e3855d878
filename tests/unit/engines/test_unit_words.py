# SPDX-License-Identifier: Apache-2.0
"""What units say is read back as it was meant."""

from __future__ import annotations

import pytest

from llmgw.engines import unit_words

GUARD = '/usr/bin/env python3 -I "/srv/my state/guard.py" --secret A=b -- '


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/x/vllm serve /srv/m --port 1", ("/x/vllm", "serve", "/srv/m", "--port", "1")),
        ('"/my engines/vllm" serve "/srv/my models/m" ""', ("/my engines/vllm", "serve", "/srv/my models/m", "")),
        ("/100%%/$$x/vllm /100%%/$$x", ("/100%/$$x/vllm", "/100%/$x")),
        (r'/x "a \"b\" \\ \n\t\r\x1b c"', ("/x", 'a "b" \\ \n\t\r\x1b c')),
        ("/x %h/a", ("/x", "%h/a")),
    ],
)
def test_words_are_those_that_were_written(line: str, words: tuple[str, ...]) -> None:
    assert unit_words.command_line(line) == words


@pytest.mark.parametrize("line", ['/x "never closed', "/x a  b", '/x a"b', '/x "a"b', " /x", ""])
def test_what_llmgw_would_not_write_says_nothing(line: str) -> None:
    assert unit_words.command_line(line) == ()


def test_the_engine_is_what_stands_after_the_guard() -> None:
    line = "/x/vllm serve m --a -- --b"
    words = ("/x/vllm", "serve", "m", "--a", "--", "--b")
    for before in (GUARD, GUARD.replace("-I ", ""), ""):
        assert unit_words.engine_words(f"[Service]\nExecStart={before}{line}\nUser=x\n") == words


def test_a_command_that_begins_like_the_guard_is_none() -> None:
    assert unit_words.engine_words("ExecStart=/usr/bin/env python3 -m x -- y\n")[-3:] == ("x", "--", "y")
    assert unit_words.engine_words("[Service]\n") == ()


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("Environment=A=1", "1"),
        ('Environment="A=a b \\"c\\" 50%% $x"', 'a b "c" 50% $x'),
        ("Environment=A=", ""),
        ("Environment=AA=1", None),
        ("Environment=A=1 B=2", None),
    ],
)
def test_a_variable_has_the_value_that_was_written(line: str, value: str | None) -> None:
    assert unit_words.variable(f"[Service]\nEnvironment=B=A=3\n{line}\n", "A") == value
