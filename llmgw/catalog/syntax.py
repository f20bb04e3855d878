# SPDX-License-Identifier: Apache-2.0
"""The composed YAML node of a file's bytes, or one error that says in plain words why it is no YAML and where."""

from __future__ import annotations

import re
import warnings

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning
from ruamel.yaml.nodes import Node

from llmgw.catalog import codes
from llmgw.errors import LlmgwError, Where

_NO_CHARACTER = re.compile(r"\\U(?!000|0010)[0-9A-Fa-f]{8}")
_QUOTE = "Put the value in quotes."
_INDENT = "Use spaces, the same number for all lines of one level."
_SENTENCES = (
    ("found character '\\t'", "a tab indents this line; YAML allows only spaces there", "Replace the tab by spaces."),
    ("that cannot start any token", "no unquoted value may begin with this character", _QUOTE),
    (
        "mapping values are not allowed here",
        "there is a second `: ` on this line, or this line is indented deeper than the value above it allows",
        "Put the value in quotes, or align the line with the keys of its level.",
    ),
    (
        "could not find expected ':'",
        "a key without a colon",
        "End the key with `: `, or indent what continues the line above.",
    ),
    ("expected <block end>", "this line does not line up with the lines above it", _INDENT),
    ("did not find expected key", "this line does not line up with the lines above it", _INDENT),
    (
        "expected ',' or",
        "a list or mapping in brackets is not closed, or a comma is missing",
        "Close it, or add the comma.",
    ),
    (
        "found unexpected end of stream",
        "a quoted value is not closed before the end of the file",
        "Add the closing quote.",
    ),
    ("found unexpected document separator", "a quoted value is not closed before `---`", "Add the closing quote."),
    ("found undefined alias", "an alias (`*name`) without its anchor (`&name`) above it", "Define the anchor first."),
    (
        "but found another document",
        "a second document begins here; a file of the catalog is one document",
        "Remove the `---`.",
    ),
    (
        "unknown escape character",
        "no such escape exists in double quotes",
        "Use single quotes, or write `\\\\` for a backslash.",
    ),
)


def compose(path: str, content: bytes) -> Node | None:
    """The node graph of the one document in `content`; None when it holds nothing but comments. Raises LlmgwError."""
    text = _text(path, content)
    try:
        with warnings.catch_warnings():
            # Using an anchor's name again is allowed (YAML 1.2.2, 3.2.2.2).
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        raise _explained(path, error) from None
    except RecursionError:
        why = "the file is nested too deeply to be read"
        raise LlmgwError(codes.SYNTAX, why, where=path, fix="Write it flatter.") from None
    except Exception as error:
        # The parser answers some malformed input with whatever it stumbles over (`"\UFFFFFFFF"`: an OverflowError).
        no_character = _NO_CHARACTER.search(text)
        where = _position(path, text[: no_character.start()]) if no_character else Where(path)
        why = f"the file is not valid YAML ({type(error).__name__})"
        raise LlmgwError(codes.SYNTAX, why, where=where, fix="Write text with backslashes in single quotes.") from error
    return node


def _text(path: str, content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LlmgwError(codes.SYNTAX, "the file is UTF-16", where=path, fix="Save it as UTF-8.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = _position(path, content[: error.start].decode("utf-8", "replace"))
        raise LlmgwError(codes.SYNTAX, "this byte is not UTF-8", where=where, fix="Save the file as UTF-8.") from None
    for offset, character in enumerate(text):
        if (character < " " and character not in "\t\n\r") or character == "\x7f":
            why = f"the control character U+{ord(character):04X} is not allowed in YAML"
            where, fix = _position(path, text[:offset]), "Remove it; the file may be damaged."
            raise LlmgwError(codes.SYNTAX, why, where=where, fix=fix)
    return text


def _position(path: str, before: str) -> Where:
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return Where(path, len(lines), len(lines[-1]) + 1)


def _explained(path: str, error: MarkedYAMLError) -> LlmgwError:
    problem = str(error.problem or error.context or "unreadable")
    mark = error.problem_mark or error.context_mark
    where = Where(path, mark.line + 1, mark.column + 1) if mark else Where(path)
    for pattern, why, fix in _SENTENCES:
        if pattern in problem:
            begun = error.context_mark
            # An unclosed quote or bracket is noticed far below the place where it has to be mended.
            opening = f" (it begins at {path}:{begun.line + 1}:{begun.column + 1})" if begun and "closed" in why else ""
            return LlmgwError(codes.SYNTAX, why + opening, where=where, fix=fix)
    return LlmgwError(
        codes.SYNTAX, f"not valid YAML: {problem}", where=where, fix="See the place named, and the line above it."
    )
