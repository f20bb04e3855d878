# SPDX-License-Identifier: Apache-2.0
"""Reading the `model` field of a multipart form, the files in it left where they are; the splice of a name (G1, G8).

A form is accepted only in the one shape that every parser reads alike (RFC 7578 over RFC 2046, without their options).
Engines differ in what they forgive: python-multipart takes the last of two parameters and knows quotes, cpp-httplib
takes the first, and splits at `;` and `=` also within quotes. Where that could give them another model than the one
that the gateway has routed and counted, the form is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from llmgw.gateway.wire.refusal import Refusal, bad_body

MOST_PARTS = 256
LONGEST_HEAD = 4096
"""Bytes of one part's headers. python-multipart's own limit for a line is little more."""

_CONTENT_TYPE = re.compile(
    # Of the characters that RFC 2046 allows in a boundary, those that mean nothing to any parser of parameters.
    rb'(?i:multipart/form-data)[ \t]*;[ \t]*(?i:boundary)=(?:"([\w\'+.-]{1,70})"|([\w\'+.-]{1,70}))'
    rb'(?:[ \t]*;[ \t]*(?i:charset)=(?:"(?i:utf-8)"|(?i:utf-8)))?[ \t]*',
    re.ASCII,
)
_TOKEN: Final = rb"[\w!#$%&'*+.^`|~-]+"
_HEADER = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([\t -~\x80-\xff]*)", re.ASCII)
_PARAMETER: Final = rb";[ \t]*(" + _TOKEN + rb')=("[^"]*"|' + _TOKEN + rb")[ \t]*"
_PARAMETERS = re.compile(_PARAMETER, re.ASCII)
_DISPOSITION = re.compile(rb"(?i:form-data)(?:" + _PARAMETER + rb")+", re.ASCII)
_LOOSE_NAME = re.compile(rb';[ \t]*"?name', re.IGNORECASE)
"""What may be a name to a parser that does not know quotes."""
_PLAIN_NAME = re.compile(rb'"?([\w\[\].-]+)"?', re.ASCII)
_TEXT = re.compile(rb'(?i)text/plain(?:[ \t]*;[ \t]*charset="?(?:utf-8|us-ascii|iso-8859-1)"?)?[ \t]*')
_IDENTITY: Final = frozenset({b"7bit", b"8bit", b"binary"})
_TRUE: Final = frozenset({b"true", b"1", b"yes", b"on", b"t", b"y"})
"""Pydantic's words for true, by which FastAPI reads a form's flag."""

_CRLF: Final = b"\r\n"


@dataclass(slots=True)
class Form:
    """What a form asks for. `data[start:end]` is the model's name as it is, without quotes."""

    data: bytes
    model: str
    stream: bool
    start: int
    end: int
    text_bytes: int
    """Bytes of all fields that are no files."""

    def forget(self) -> None:
        """Lets the form go; what it asked for stays known."""
        self.data = b""

    def with_model(self, name: str) -> bytes:
        """The form with another model name and every other byte as it came."""
        view = memoryview(self.data)
        return b"".join((view[: self.start], name.encode(), view[self.end :]))


class _Part(NamedTuple):
    name: bytes
    is_file: bool
    is_text: bool
    start: int
    end: int


class _UnreadableError(Exception):
    """Says what is wrong with the form."""


def read_form(content_type: bytes, data: bytes) -> Form | Refusal:
    """What the form in `data` asks for, or why it is not passed on. Several Content-Type headers come joined by commas.

    Files are looked through for the boundary and not otherwise touched.
    """
    said = _CONTENT_TYPE.fullmatch(content_type)
    if said is None:
        return _refused_type(content_type)
    try:
        parts = _parts(data, said.group(1) or said.group(2))
        start, end = _model(parts)
        model = data[start:end].decode()
    except _UnreadableError as error:
        return bad_body(f"The form in the request body cannot be passed on: {error}.")
    except UnicodeDecodeError:
        return bad_body("The form's field `model` is not UTF-8.", "model")
    stream = any(part.name == b"stream" and data[part.start : part.end].lower() in _TRUE for part in parts)
    text_bytes = sum(part.end - part.start for part in parts if not part.is_file)
    return Form(data, model, stream, start, end, text_bytes)


def _refused_type(content_type: bytes) -> Refusal:
    if content_type.lstrip().lower().startswith(b"multipart/form-data"):
        return bad_body(
            "The Content-Type must be `multipart/form-data; boundary=...` with a boundary of 1 to 70 letters, digits "
            "and .+-_' and nothing else but charset=utf-8."
        )
    return Refusal(415, "content_type", "This path takes a form: send it as multipart/form-data.")


def _model(parts: list[_Part]) -> tuple[int, int]:
    """The span of the only model's name."""
    found = [part for part in parts if part.name == b"model"]
    if not found:
        raise _UnreadableError("it has no field `model`")
    if len(found) > 1:
        raise _UnreadableError("it has the field `model` more than once; gateway and engine could differ on it")
    part = found[0]
    if part.is_file or not part.is_text:
        raise _UnreadableError("its field `model` must be plain text, not a file")
    if part.start == part.end:
        raise _UnreadableError("its field `model` is empty")
    return part.start, part.end


def _parts(data: bytes, boundary: bytes) -> list[_Part]:
    """All parts, in order. The form begins with its first delimiter and ends with the closing one."""
    delimiter = b"\r\n--" + boundary
    if not data.startswith(delimiter[2:] + _CRLF):
        raise _UnreadableError("it does not begin with `--`, the boundary of its Content-Type and a line end (CR LF)")
    at = len(delimiter) - 2
    parts: list[_Part] = []
    while True:
        body = data.find(b"\r\n\r\n", at, at + LONGEST_HEAD)
        if body < 0:
            raise _UnreadableError(f"the headers of part {len(parts) + 1} have no end within {LONGEST_HEAD} bytes")
        end = data.find(delimiter, body + 4)
        if end < 0:
            raise _UnreadableError("it has no closing delimiter")
        parts.append(_part(data[at:body], body + 4, end))
        if len(parts) > MOST_PARTS:
            raise _UnreadableError(f"it has more than {MOST_PARTS} parts")
        at = end + len(delimiter)
        if data[at : at + 5] in {b"--", b"--\r\n"}:
            return parts
        if not data.startswith(_CRLF, at):
            raise _UnreadableError("a boundary is not followed by a line end (CR LF), or by `--` and the form's end")


def _part(head: bytes, start: int, end: int) -> _Part:
    """The part with these headers; the head begins with a line end."""
    name = None
    is_file = False
    is_text = True
    for line in head.split(_CRLF)[1:]:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise _UnreadableError("a part has a line that is no header")
        field, value = header.group(1).lower(), header.group(2)
        if field == b"content-disposition":
            if name is not None:
                raise _UnreadableError("a part has two Content-Disposition headers")
            name, is_file = _disposition(value)
        elif field == b"content-type":
            is_text = is_text and _TEXT.fullmatch(value) is not None
        elif field == b"content-transfer-encoding" and value.strip().lower() not in _IDENTITY:
            raise _UnreadableError("a part has a Content-Transfer-Encoding, which forms no longer have")
    if name is None:
        raise _UnreadableError("a part has no Content-Disposition header")
    return _Part(name, is_file, is_text, start, end)


def _disposition(value: bytes) -> tuple[bytes, bool]:
    """A part's name, and whether it is a file."""
    if _DISPOSITION.fullmatch(value) is None or len(_LOOSE_NAME.findall(value)) != 1:
        raise _UnreadableError('a Content-Disposition is not `form-data; name="..."`, with a file name or without')
    given = _PARAMETERS.findall(value)
    name = next((_PLAIN_NAME.fullmatch(text) for key, text in given if key == b"name"), None)
    if name is None:
        raise _UnreadableError("a field's name has other characters than letters, digits and ._-[]")
    return name.group(1), any(key.lower().startswith(b"filename") for key, _text in given)
