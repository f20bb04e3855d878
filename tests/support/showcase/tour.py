# SPDX-License-Identifier: Apache-2.0
"""The outputs in docs/tutorials/showcase.md: every command of the page with what it really prints.

A command is an indented line that begins with `$ llmgw`; what is indented below it is its output. Of a pipe the page
may use `head -N`, `tail -N`, `grep -E PATTERN`, `grep WORD` and `cut -c -N`, as a shell would.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/tutorials/showcase.md"
Call = Callable[[list[str]], str]
"""Calls llmgw with these arguments and returns what it prints on stdout."""
_INDENT = "    "
_PROMPT = f"{_INDENT}$ llmgw "


def commands(text: str) -> list[str]:
    """The command lines of the page, without prompt."""
    return [line.removeprefix(_PROMPT) for line in text.splitlines() if line.startswith(_PROMPT)]


def renewed(text: str, call: Call) -> str:
    """The page with what its commands print now."""
    return "\n".join(_renewed(text.splitlines(), call)) + "\n"


def _renewed(lines: Sequence[str], call: Call) -> Iterator[str]:
    below_command = False
    for line in lines:
        if line.startswith(_PROMPT):
            yield line
            yield from (f"{_INDENT}{printed}".rstrip() for printed in _printed(line.removeprefix(_PROMPT), call))
            below_command = True
        elif below_command and (line.startswith(_INDENT) or not line):
            continue
        else:
            if below_command:
                yield ""
            below_command = False
            yield line


def _printed(command: str, call: Call) -> list[str]:
    words, *filters = (shlex.split(part) for part in re.split(r" \| ", command))
    lines = call(words).rstrip("\n").split("\n")
    for name, *arguments in filters:
        lines = _filtered(lines, name, *arguments)
    return lines


def _filtered(lines: list[str], name: str, *arguments: str) -> list[str]:
    last = arguments[-1]
    if name == "head":
        return lines[: int(last.removeprefix("-"))]
    if name == "tail":
        return lines[-int(last.removeprefix("-")) :]
    if name == "grep":
        pattern = last if arguments[0] == "-E" else re.escape(last)
        return [line for line in lines if re.search(pattern, line)]
    if name == "cut":
        return [line[: int(last.removeprefix("-"))] for line in lines]
    message = f"the tour knows head, tail, grep and cut, and not {name}"
    raise ValueError(message)
