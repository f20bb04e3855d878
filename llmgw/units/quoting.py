# SPDX-License-Identifier: Apache-2.0
"""systemd's quoting rules: any text becomes exactly one word of a command line or one variable (systemd.syntax(7), systemd.service(5))."""

from __future__ import annotations

from llmgw.errors import LlmgwError

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@^")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def word(text: str) -> str:
    """One argument of ExecStart=: `%` and `$` are doubled, blanks, quotes and control characters are quoted and escaped."""
    return _quoted(text.replace("%", "%%").replace("$", "$$"), text)


def variable(name: str, value: str) -> str:
    """One assignment of Environment=. `$` has no meaning there, `%` has (systemd.exec(5))."""
    return _quoted(f"{name}={value}".replace("%", "%%"), f"{name}={value}")


def line(text: str) -> str:
    """Text for a one-line setting such as Description=: `%` doubled, control characters as blanks."""
    return "".join(character if character >= " " else " " for character in text).replace("%", "%%").strip()


def _quoted(escaped: str, original: str) -> str:
    if "\0" in original:
        raise LlmgwError("unit-text", f"{original!r} holds a NUL character, which no command line can carry", fix="remove it")
    if escaped and all(character in _PLAIN or character in "%$" for character in escaped):
        return escaped
    return '"' + "".join(map(_escape, escaped)) + '"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\x{ord(character):02x}" if character < " " or character == "\x7f" else character
