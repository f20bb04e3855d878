# SPDX-License-Identifier: Apache-2.0
"""What a unit's text says, read back: the inverse of `llmgw.units.quoting`.

Text that llmgw did not write so is not guessed at: it says nothing.
"""

from __future__ import annotations

import re

_WORD = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|([^" ]+))(?: |$)')
"""One word as llmgw writes it: in quotes as a whole or not at all, and one blank after it."""
_ESCAPE = re.compile(r'\\(?:x([0-9a-f]{2})|([\\"ntr]))')
_MEANT = {"\\": "\\", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
_COMMAND = re.compile(r"^ExecStart=(.*)$", re.MULTILINE)
_GUARDED = ("/usr/bin/env", "python3")
_GUARD = "/guard.py"
_BEFORE_THE_ENGINE = "--"


def command_line(value: str) -> tuple[str, ...]:
    """The words of a value of ExecStart=, program first; empty when they are not written as llmgw writes them.

    `$` stands for itself in the program, and is doubled in arguments. `%h`, the home of a manager's user, stays so.
    """
    program, *arguments = _words(value) or ("",)
    return (program, *(one.replace("$$", "$") for one in arguments)) if program else ()


def engine_words(text: str) -> tuple[str, ...]:
    """The command line of the engine in a unit's text, without the guard before it; empty when there is none."""
    found = _COMMAND.search(text)
    words = command_line(found[1]) if found else ()
    guarded = words[:2] == _GUARDED and any(word.endswith(_GUARD) for word in words[2:4])
    if not guarded:
        return words
    return words[words.index(_BEFORE_THE_ENGINE) + 1 :] if _BEFORE_THE_ENGINE in words else ()


def variable(text: str, name: str) -> str | None:
    """The value of a variable in a unit's text; None when there is none."""
    for found in re.finditer(rf'^Environment=("?{re.escape(name)}=.*)$', text, re.MULTILINE):
        words = _words(found[1])
        if len(words) == 1:
            return words[0].partition("=")[2]
    return None


def setting(text: str, name: str) -> str | None:
    """The value of the first line of that setting, as it is written; None when there is none."""
    found = re.search(rf"^{re.escape(name)}=(.*)$", text, re.MULTILINE)
    return found[1] if found else None


def _words(value: str) -> tuple[str, ...]:
    words: list[str] = []
    position = 0
    while position < len(value):
        found = _WORD.match(value, position)
        if found is None:
            return ()
        quoted = found[1]
        word = found[2] if quoted is None else _ESCAPE.sub(_character, quoted)
        words.append(word.replace("%%", "%"))
        position = found.end()
    return tuple(words)


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _MEANT[escape[2]]
