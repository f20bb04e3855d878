# SPDX-License-Identifier: Apache-2.0
"""`llmgw facts parse`: what llmgw makes of a tool's output, read by the very functions that discovery uses."""

from __future__ import annotations

import codecs
import difflib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from llmgw.cli import exits, options
from llmgw.cli.style import page
from llmgw.errors import LlmgwError
from llmgw.nodekit import TEXT_KINDS, Unreadable, read_text

PARSE_FORMAT = 1
_MOST_BYTES = 256 * 1024 * 1024
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_READS_NEARLY_ANYTHING = ("error", "smi-csv")


def parse(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"What the text is: {', '.join(TEXT_KINDS)}.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="The text; `-` for standard input.")],
    *,
    as_json: options.AsJson = False,
) -> int:
    """Show what llmgw reads in a tool's output."""
    if kind not in TEXT_KINDS:
        raise typer.BadParameter(_unknown(kind), param_hint="KIND")
    text = decoded(_content(file))
    try:
        reading = read_text(kind, text)
    except Unreadable as error:
        raise LlmgwError("unreadable-text", str(error), where=_shown(file), fix=_instead(kind, text, file)) from error
    if as_json:
        print(json.dumps({"format_version": PARSE_FORMAT, **reading}, indent=2))
    else:
        print(page(reading_lines(reading)))
    return exits.OK


def decoded(content: bytes) -> str:
    """The bytes as text: UTF-8, or what their byte order mark says; what is neither becomes U+FFFD."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    return content.decode("utf-8", "replace")


def reading_lines(value: Mapping[str, Any]) -> Iterator[str]:
    """A reading as indented lines; what the text does not say is `-`."""
    for name, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield f"{name}:"
            yield from (f"  {line}" for line in reading_lines(inner))
        elif isinstance(inner, list | tuple) and any(isinstance(one, Mapping) for one in inner):
            yield f"{name}:"
            for one in inner:
                lines = list(reading_lines(one)) or ["-"]
                yield f"  - {lines[0]}"
                yield from (f"    {line}" for line in lines[1:])
        elif isinstance(inner, list | tuple) and any(isinstance(one, list | tuple) for one in inner):
            yield f"{name}:"
            yield from (f"  - {_inner(one)}" for one in inner)
        else:
            yield f"{name}: {_cell(inner)}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value)) or "none"
    return str(value)


def _inner(value: Any) -> str:
    """A row of a list of lists. Cells may hold blanks, so that commas part them."""
    return ", ".join(map(_cell, value)) if isinstance(value, list | tuple) else _cell(value)


def _content(file: str) -> bytes:
    """The bytes of a file or of standard input. Raises LlmgwError."""
    try:
        if file == "-":
            content = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        why = f"the text cannot be read: {(error.strerror or type(error).__name__).lower()}"
        fix = "name a file that holds what the tool printed, or `-` for standard input"
        raise LlmgwError("text-file", why, where=_shown(file), fix=fix) from error
    if len(content) > _MOST_BYTES:
        raise LlmgwError("text-file", f"the text is longer than {_MOST_BYTES >> 20} MiB", where=_shown(file))
    return content


def _shown(file: str) -> str:
    return "standard input" if file == "-" else file


def _unknown(kind: str) -> str:
    near = difflib.get_close_matches(kind.lower(), [*map(str.lower, TEXT_KINDS)], n=1)
    meant = [one for one in TEXT_KINDS if one.lower() in near]
    hint = f"; did you mean {meant[0]}?" if meant else "."
    return f"no kind {kind}{hint} There are {', '.join(TEXT_KINDS)}."


def _instead(kind: str, text: str, file: str) -> str:
    """What to try where a text is not of its kind: the kinds that it reads as, if there are any."""
    others = (other for other in TEXT_KINDS if other != kind and other not in _READS_NEARLY_ANYTHING)
    found = [other for other in others if _reads_as(other, text)]
    if found:
        return f"it looks like {' or '.join(found)}: llmgw facts parse {found[0]} {file}"
    return f"check that this is the whole output, and of kind {kind}; see docs/how-to/read-a-tools-output.md"


def _reads_as(kind: str, text: str) -> bool:
    try:
        read_text(kind, text)
    except Unreadable:
        return False
    return True
