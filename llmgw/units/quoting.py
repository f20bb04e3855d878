# SPDX-License-Identifier: Apache-2.0
"""systemd's quoting rules: any text becomes exactly one word of a command line or one variable (systemd.syntax(7),
systemd.service(5)).
"""

from __future__ import annotations

import re

from llmgw.errors import LlmgwError

_PLAIN = re.compile("[a-zA-Z0-9_\\-+=./:,@^%$]+")
"""What needs no quotes. Most words are such: each is looked at once and as a whole, for a fleet has 100,000 of them."""
_NEVER_IN_A_PATH = frozenset("\"'\\\x7f")
_SURROGATES = range(0xD800, 0xE000)
_NONCHARACTERS = range(0xFDD0, 0xFDF0)
_END_OF_A_PLANE = 0xFFFE  # the last two of each are noncharacters too
_CONTROL = [*map(chr, range(0x20)), "\x7f"]
_ESCAPES = str.maketrans(
    {character: f"\\x{ord(character):02x}" for character in _CONTROL}
    | {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
)
_BLANKS = str.maketrans({character: " " for character in _CONTROL if character < " "})


def program(path: str) -> str:
    """The program of ExecStart=, an absolute path, in which `$` stands for itself: only in arguments it is doubled.

    Raises LlmgwError `unit-text` for what no quoting brings past systemd there.
    """
    if not path.startswith("/") or any(character in _NEVER_IN_A_PATH or character < " " for character in path):
        raise LlmgwError(
            "unit-text",
            f"systemd cannot start {path!r}: it takes absolute paths without quotes, backslashes, control characters",
            fix="install it at another path, or name another one in llmgw_engine_commands",
        )
    return _quoted(path.replace("%", "%%"), path)


def writable(text: str) -> str:
    """One word of ReadWritePaths=: an absolute path, which may be missing. `$` has no meaning there, `%` has, and there
    is no escaping.

    Raises LlmgwError `unit-text` for what cannot stand there.
    """
    if not text.startswith("/") or any(character in _NEVER_IN_A_PATH or character < " " for character in text):
        raise LlmgwError(
            "unit-text",
            f"systemd cannot grant {text!r}: it takes absolute paths without quotes, backslashes, control characters",
            fix="let the profile's variable or option name another folder",
        )
    return _quoted("-" + text.replace("%", "%%"), text)


def word(text: str) -> str:
    """One argument of ExecStart=: `%` and `$` are doubled, blanks, quotes and control characters are quoted and
    escaped.
    """
    return _quoted(text.replace("%", "%%").replace("$", "$$"), text)


def variable(name: str, value: str) -> str:
    """One assignment of Environment=. `$` has no meaning there, `%` has (systemd.exec(5))."""
    return _quoted(f"{name}={value}".replace("%", "%%"), f"{name}={value}")


def line(text: str) -> str:
    """Text for a one-line setting such as Description=: `%` doubled, control characters as blanks."""
    return text.translate(_BLANKS).replace("%", "%%").strip()


def home_word(path: str) -> str:
    """One argument of ExecStart= that is a path; `~/` is the home of the manager's user."""
    if not path.startswith("~/"):
        return word(path)
    return _quoted("%h" + path[1:].replace("%", "%%").replace("$", "$$"), path)


def home_line(path: str) -> str:
    """A path as the end of a one-line setting; `~/` is the home of the manager's user."""
    return f"%h{line(path[1:])}" if path.startswith("~/") else line(path)


def _quoted(escaped: str, original: str) -> str:
    if _PLAIN.fullmatch(escaped):
        return escaped
    bad = next((character for character in original if not _carried(character)), None)
    if bad is not None:
        why = f"{original!r} holds U+{ord(bad):04X}, which systemd takes in no unit"
        raise LlmgwError("unit-text", why, fix="remove that character")
    return f'"{escaped.translate(_ESCAPES)}"'


def _carried(character: str) -> bool:
    """Whether systemd reads the character: it drops lines with NUL, surrogates and Unicode's noncharacters."""
    code = ord(character)
    nowhere = code == 0 or code in _SURROGATES or code in _NONCHARACTERS
    return not nowhere and code & _END_OF_A_PLANE != _END_OF_A_PLANE
