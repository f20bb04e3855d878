# SPDX-License-Identifier: Apache-2.0
"""A real systemd hands a process exactly the arguments and variables that were quoted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from llmgw.units import quoting
from tests.unit.units.real_manager import Units

UNIT = "llmgw-quoting.0.0.service"
STRINGS = [
    "plain",
    "",
    " ",
    "  two  blanks  ",
    "\t",
    "a\tb",
    "line one\nline two\n",
    "\r\n",
    "'",
    '"',
    'it\'s "both"',
    "\\",
    "\\\\",
    "ends in a backslash\\",
    "\\n is no new line",
    "\\x41 \\101 \\u0041 \\s",
    "%",
    "%%",
    "%n %i %h %u %%",
    "100%",
    "$",
    "$$",
    "$HOME",
    "${HOME}",
    "$HOME ${HOME} $$HOME",
    "a$b",
    ";",
    "\\;",
    "; ExecStart=/bin/false",
    "#",
    "# a comment",
    "[Service]",
    "-",
    "--",
    "--option=value with blanks",
    "@:+!-",
    "A=b C=d",
    "{{ template }} {% if %}",
    "*?[a-z]~/",
    "`id` $(id) && || > < | &",
    "\x01\x07\x08\x1b[31m\x7f",
    "\x85\xa0\u2028\u2029\u200b\ufeff",
    "ünïcödé 界 🙂",
    '{"json": ["a", {"b": "\\"c\\""}]}',
    "x" * 5000,
]
DUMP = """\
#!{python}
import json, os, sys
with open({path!r}, "w", encoding="utf-8") as file:
    json.dump([sys.argv[1:], dict(os.environ)], file)
"""


@pytest.mark.parametrize("name", ["dump", "dump $HOME 50% ${x}; #1 é"], ids=["a plain path", "a path of signs"])
def test_every_string_arrives_as_it_was(manager: Units, tmp_path: Path, name: str) -> None:
    program, answer = tmp_path / name, tmp_path / "answer.json"
    program.write_text(DUMP.format(python=sys.executable, path=str(answer)), encoding="utf-8")
    program.chmod(0o755)
    variables = {f"V{number}": text for number, text in enumerate(STRINGS)}
    lines = ["[Service]", "Type=oneshot"]
    lines.append("ExecStart=" + " ".join([quoting.program(str(program)), *map(quoting.word, STRINGS)]))
    lines += ["Environment=" + quoting.variable(key, text) for key, text in variables.items()]
    manager.run({UNIT: "\n".join(lines) + "\n"})
    arguments, environment = json.loads(answer.read_text(encoding="utf-8"))
    assert arguments == STRINGS
    assert {key: environment.get(key) for key in variables} == variables
