# SPDX-License-Identifier: Apache-2.0
"""How engines read a form: FastAPI, python-multipart by itself, and a parser that knows no quotes."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, FormParser, parse_options_header
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

REFUSED = ("refused",)
"""The engine answers 400; a tuple, unlike all that a reader finds."""
Found = list[str] | tuple[str]


def fastapi(content_type: bytes, data: bytes) -> Found:
    """Values of the fields named `model`, in order; a file is shown as such."""

    async def stream() -> AsyncGenerator[bytes, None]:
        yield data

    async def read() -> FormData:
        return await MultiPartParser(Headers({"content-type": content_type.decode("latin-1")}), stream()).parse()

    reading = read()
    try:
        reading.send(None)  # small files stay in memory, so it never waits
    except StopIteration as done:
        form: FormData = done.value
        found = ["(file)" if isinstance(value, UploadFile) else value for value in form.getlist("model")]
        for _name, file in form.multi_items():
            if isinstance(file, UploadFile):
                file.file.close()
        return found
    except MultiPartException:
        return REFUSED
    raise AssertionError("the parser waits for something")


def python_multipart(content_type: bytes, data: bytes) -> Found:
    """As `fastapi`, by the library's own form parser."""
    found: list[str] = []

    def on_field(field: Field) -> None:
        if field.field_name == b"model":
            found.append((field.value or b"").decode("latin-1"))

    def on_file(file: File) -> None:
        if file.field_name == b"model":
            found.append("(file)")

    kind, options = parse_options_header(content_type)
    try:
        parser = FormParser(kind.decode(), on_field, on_file, boundary=options.get(b"boundary"))
        parser.write(data)
        parser.finalize()
    except (FormParserError, ValueError):
        return REFUSED
    return [text.encode("latin-1").decode(errors="replace") for text in found]


def without_quotes(content_type: bytes, data: bytes) -> Found:
    """As `fastapi`, in cpp-httplib's way: splits at `;` and `=` wherever they are; the first of two names counts."""
    given = _parameters(content_type.partition(b";")[2])
    boundary = given.get(b"boundary", b"")
    at = data.find(b"--" + boundary + b"\r\n")
    if not boundary or at < 0:
        return REFUSED
    at += len(boundary) + 4
    found = []
    while True:
        name, is_file = b"", False
        while (end := data.find(b"\r\n", at)) != at:
            line = data[at:end]
            if end < 0 or b":" not in line or b"\n" in line or b"\0" in line:
                return REFUSED
            field, _colon, value = line.partition(b":")
            if field.lower() == b"content-disposition" and value.strip(b" \t").lower().startswith(b"form-data;"):
                parameters = _parameters(value.partition(b";")[2])
                if b"name" not in parameters:
                    return REFUSED
                name, is_file = parameters[b"name"], b"filename" in parameters or b"filename*" in parameters
            at = end + 2
        end = data.find(b"\r\n--" + boundary, at + 2)
        if end < 0:
            return REFUSED
        if name == b"model":
            found.append("(file)" if is_file else data[at + 2 : end].decode(errors="replace"))
        at = end + len(boundary) + 4
        if data[at : at + 2] != b"\r\n":
            return found if data[at : at + 2] == b"--" else REFUSED
        at += 2


def _parameters(text: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for piece in text.split(b";"):
        words = [word.strip(b" \t") for word in piece.split(b"=")]
        if words[0]:
            found.setdefault(words[0].strip(b'"'), words[-1].strip(b'"') if len(words) > 1 else b"")
    return found
