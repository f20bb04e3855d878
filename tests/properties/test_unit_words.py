# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in a unit is read back as it was: `engines.unit_words` inverts `units.quoting`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llmgw.engines import unit_words
from llmgw.units import quoting

SIGNS = "%$\\\"'; \t\n\r#[]=~/-aZ0é界🙂\x01\x1b\x7f\u2028xnh"
_NEVER = st.characters(exclude_categories=("Cs", "Cn"), exclude_characters="\0")
TEXT = st.text(alphabet=SIGNS, max_size=12) | st.text(alphabet=_NEVER, max_size=12)
PROGRAMS = st.text(alphabet="%$; #[]=~/-aé界", max_size=12).map(lambda text: f"/{text}")
NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,9}", fullmatch=True)


@given(PROGRAMS, st.lists(TEXT, max_size=4))
def test_a_command_line_is_read_back_as_it_was(program: str, arguments: list[str]) -> None:
    line = " ".join((quoting.program(program), *map(quoting.word, arguments)))
    assert unit_words.command_line(line) == (program, *arguments)


@given(NAMES, TEXT, NAMES, TEXT)
def test_a_variable_is_read_back_as_it_was(name: str, value: str, other: str, others: str) -> None:
    lines = [f"Environment={quoting.variable(*one)}" for one in ((name, value), (f"{other}_", others))]
    text = "\n".join(("[Service]", *lines, ""))
    assert unit_words.variable(text, name) == value or name == f"{other}_"


@given(PROGRAMS, st.lists(TEXT, max_size=4), TEXT)
def test_behind_the_guard_the_engine_is_read_back_as_it_was(program: str, arguments: list[str], folder: str) -> None:
    guard = ("python3", "-I", f"/{folder}/guard.py", "--secret", "A=b", "--")
    words = map(quoting.word, (*guard, program, *arguments))
    text = f"[Service]\nExecStart={' '.join(('/usr/bin/env', *words))}\n"
    assert unit_words.engine_words(text) == (program, *arguments)
