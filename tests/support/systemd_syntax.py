# SPDX-License-Identifier: Apache-2.0
"""How systemd reads a unit, written from its manual pages and from nothing of llmgw: what quoting is held against.

Lines, quotes and escapes are of systemd.syntax(7), specifiers of systemd.unit(5), command lines of systemd.service(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "s": " ",
    "\\": "\\",
    '"': '"',
    "'": "'",
}
_NUMBERS = {"x": (2, 16), "u": (4, 16), "U": (8, 16)}
_BLANKS = " \t\n\r"


class NotTakenError(Exception):
    """systemd would refuse the line, or understand more by it than text."""


def settings(text: str) -> Iterator[tuple[str, str, str]]:
    """(section, key, value) of every line of a unit, sections that start with X- left out."""
    section = ""
    for line in text.split("\n"):
        stripped = line.strip(_BLANKS)
        if not stripped or stripped[0] in "#;":
            continue
        if line.endswith("\\"):
            raise NotTakenError(f"the line goes on in the next one: {line!r}")
        _must_be_clean(line)
        if stripped.startswith("["):
            section = stripped[1:-1]
        elif not section.startswith("X-"):
            key, _, value = stripped.partition("=")
            yield section, key.strip(_BLANKS), value.strip(_BLANKS)


def command(value: str) -> list[str]:
    """The argument list of an ExecStart= value, program first."""
    found = _words(value)
    path, *arguments = (word for word, _bare in found)
    if path[:1] in "@-:+!" or not path.startswith("/") or re.search(r"[\x00-\x1f\x7f\"'\\]", path):
        raise NotTakenError(f"no absolute path of a program: {path!r}")
    if (";", True) in found:
        raise NotTakenError("a lone semicolon begins another command")
    return [specifiers(path), *(_variables(specifiers(one)) for one in arguments)]


def assignment(value: str) -> tuple[str, str]:
    """The one variable of an Environment= value."""
    (word,) = words(value)
    name, equals, content = specifiers(word).partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise NotTakenError(f"no assignment: {word!r}")
    return name, content


def words(value: str) -> list[str]:
    """The words of a value: blanks part them, quotes hold them together, backslashes escape (systemd.syntax)."""
    return [word for word, _bare in _words(value)]


def _words(value: str) -> list[tuple[str, bool]]:
    """The words, each with whether it stands there without quotes and escapes."""
    _must_be_clean(value)
    found: list[tuple[str, bool]] = []
    current: str | None = None
    begin = 0
    quote = ""
    position = 0
    while position < len(value):
        character = value[position]
        position += 1
        if character == "\\":
            escaped, position = _escape(value, position)
            current = (current or "") + escaped
        elif quote:
            if character == quote:
                quote = ""
            else:
                current = (current or "") + character
        elif character in "\"'":
            quote, current = character, current or ""
        elif character in _BLANKS:
            if current is not None:
                found.append((current, value[begin : position - 1] == current))
            current, begin = None, position
        else:
            current = (current or "") + character
    if quote:
        raise NotTakenError("a quote is not closed")
    return found if current is None else [*found, (current, value[begin:] == current)]


def specifiers(text: str) -> str:
    """`%%` is a percent sign; any other `%` means something (systemd.unit)."""
    return _halved(text, "%")


def _variables(text: str) -> str:
    """`$$` is a dollar sign; any other `$` in an argument is a variable (systemd.service)."""
    return _halved(text, "$")


def _halved(text: str, mark: str) -> str:
    parts = text.split(mark * 2)
    if any(mark in part for part in parts):
        raise NotTakenError(f"{mark} means something in {text!r}")
    return mark.join(parts)


def _escape(value: str, position: int) -> tuple[str, int]:
    kind = value[position : position + 1]
    if kind in _SIMPLE and kind:
        return _SIMPLE[kind], position + 1
    digits, base = _NUMBERS.get(kind, (3, 8))
    begin = position + (1 if kind in _NUMBERS else 0)
    number = value[begin : begin + digits]
    try:
        if len(number) != digits or int(number, base) == 0:
            raise NotTakenError(f"no escape: {value[position:]!r}")
        return chr(int(number, base)), begin + digits
    except (ValueError, OverflowError) as error:
        raise NotTakenError(f"no escape: {value[position:]!r}") from error


def _must_be_clean(line: str) -> None:
    """Lines that are not UTF-8 without NUL and noncharacters are dropped."""
    for character in line:
        code = ord(character)
        if code == 0 or 0xD800 <= code <= 0xDFFF or 0xFDD0 <= code <= 0xFDEF or code & 0xFFFF in (0xFFFE, 0xFFFF):
            raise NotTakenError(f"U+{code:04X} in {line!r}")
