# SPDX-License-Identifier: Apache-2.0
"""Reading a form, against the parsers that engines have as the judges of what it says (G1, G8)."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmgw.gateway.wire import multipart
from llmgw.gateway.wire.multipart import MOST_PARTS, Form, read_form
from llmgw.gateway.wire.refusal import Refusal
from tests.gateway import form_readers

BOUNDARY = b"xYz"
TYPE = b"multipart/form-data; boundary=" + BOUNDARY
FIELD = b'Content-Disposition: form-data; name="%b"'
MODEL = FIELD % b"model"
FILE = b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav'


def form(*parts: tuple[bytes, bytes], boundary: bytes = BOUNDARY) -> bytes:
    """A form of parts, each its headers and its content."""
    body = b"".join(b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary, head, content) for head, content in parts)
    return body + b"--%b--\r\n" % boundary


def refusal(data: bytes, content_type: bytes = TYPE) -> Refusal:
    found = read_form(content_type, data)
    assert isinstance(found, Refusal), f"accepted with model {found.model!r}"
    return found


# --- forms as clients and attackers write them ---

OTHER_NAMES = st.sampled_from([b"file", b"stream", b"language", b"Model", b"models[]"])
NAMES = st.sampled_from([b"model", b"model", b"model ", b" model"]) | OTHER_NAMES
FILE_NAMES = st.sampled_from(
    [b"a.wav", b"", b"a;b", b"a=b", b"a; name=model", b"a;name=model", b'a"; name="model', b'a\\"; name=model; x=\\"b']
)
HEADS = (
    b'Content-Disposition: form-data; name="%(name)b"',
    b'Content-Disposition: form-data; name="%(name)b"; filename="%(file)b"',
)
ODD_HEADS = (
    *HEADS,
    b"content-disposition:form-data; name=%(name)b",
    b'Content-Disposition: form-data; filename="%(file)b"; name="%(name)b"',
    b'Content-Disposition: form-data; NAME="%(name)b"',
    b'Content-Disposition: form-data; name="x"; name="%(name)b"',
    b'Content-Disposition: form-data; name="%(name)b"; name="x"',
    b"Content-Disposition: form-data; name*=utf-8''%(name)b",
    b"Content-Disposition: form-data; name=\"%(name)b\"; name*=utf-8''model",
    b"Content-Disposition: form-data; name=\"%(name)b\"; filename*=UTF-8''a",
    b'Content-Disposition: attachment; name="%(name)b"',
    b'Content-Disposition: form-data;\r\n name="%(name)b"',
    b'X: y\nContent-Disposition: form-data; name="%(name)b"',
    b'X: y\nContent-Disposition: form-data; name="x"\r\nContent-Disposition: form-data; name="%(name)b"',
    b'Content-Disposition : form-data; name="%(name)b"',
    b'Content-Type: text/plain\r\nContent-Disposition: form-data; name="%(name)b"',
    b"X: y",
    b"",
)

EDGES = [
    (b"\r\n", b"--xYz--\r\n"),
    (b"junk\r\n", b"--xYz--\r\n"),
    (b"\n--b\r\n", b"--xYz--\r\n"),
    (b"", b"--xYz--"),
    (b"", b"--xYz--\r\nmore"),
    (b"", b"--xYz--\r\n--xYz\r\n" + MODEL + b"\r\n\r\nother\r\n--xYz--\r\n"),
    (b"", b"--xYz\r\n"),
    (b"", b"--xYz-"),
    (b"", b""),
]


def heads(of: tuple[bytes, ...], names: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """The headers of a part."""
    return st.builds(
        lambda head, name, file: head % {b"name": name, b"file": file}, st.sampled_from(of), names, FILE_NAMES
    )


CONTENTS = st.sampled_from([b"m", b"m", b"other", b"\xff", b"true"]) | st.binary(max_size=6)
ODD_CONTENTS = st.sampled_from(
    [
        b"\r\n--xYz",
        b"\r\n--xYzzz\r\n",
        b'\n--xYz\nContent-Disposition: form-data; name="model"\n\nother\n--xYz--',
        b'--xYz\r\nContent-Disposition: form-data; name="model"\r\n\r\nother',
        b'a\r\n--xYz \r\nContent-Disposition: form-data; name="model"\r\n\r\nother',
        b'a\r\n--xYz--\r\n--xYz\r\nContent-Disposition: form-data; name="model"\r\n\r\nother',
    ]
)  # fmt: skip
TYPES = st.sampled_from(
    [
        b'Multipart/Form-Data;boundary="xYz"; charset=UTF-8',
        TYPE + b"; charset=utf-16",
        TYPE + b"; boundary=b",
        b"multipart/form-data; boundary=b; boundary=xYz",
        b'multipart/form-data; boundary="xYz;boundary=b"',
        b"multipart/form-data; boundary=b=xYz",
        b"multipart/form-data; x=y; boundary=xYz",
        b"multipart/mixed; boundary=xYz",
        b"multipart/form-data",
    ]
)


@st.composite
def forms(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A Content-Type and a body with one model, and up to two things done to them that could be read in two ways."""
    others = st.tuples(heads(HEADS, OTHER_NAMES), CONTENTS)
    parts = [draw(others) for _other in range(draw(st.integers(0, 2)))]
    odd = draw(st.sets(st.sampled_from(["model", "head", "part", "content", "type", "line", "edge"]), max_size=2))
    head = draw(heads(ODD_HEADS, st.just(b"model"))) if "model" in odd else HEADS[0] % {b"name": b"model"}
    parts.insert(draw(st.integers(0, len(parts))), (head, draw(CONTENTS)))
    at = draw(st.integers(0, len(parts) - 1))
    if "head" in odd:
        parts[at] = (draw(heads(ODD_HEADS, NAMES)), parts[at][1])
    if "part" in odd:
        parts.insert(at, (draw(heads(ODD_HEADS, NAMES)), draw(CONTENTS)))
    if "content" in odd:
        parts[at] = (parts[at][0], draw(ODD_CONTENTS))
    pieces = [b"--xYz\r\n%b\r\n\r\n%b\r\n" % part for part in parts]
    if "line" in odd:
        line = draw(st.sampled_from([b"--xYz\n", b"--xYz \r\n", b"--xYz\r", b"\r\n--xYz\r\n", b"--xYz\r\n" * 2, b""]))
        pieces[at] = pieces[at].replace(b"--xYz\r\n", line, 1)
    before, end = draw(st.sampled_from(EDGES)) if "edge" in odd else (b"", b"--xYz--\r\n")
    content_type = draw(TYPES) if "type" in odd else TYPE
    return content_type, b"".join([before, *pieces, end])


def every_engine_reads_what_the_gateway_read(content_type: bytes, data: bytes) -> None:
    found = read_form(content_type, data)
    if isinstance(found, Form):
        assert data[found.start : found.end].decode() == found.model
        assert form_readers.fastapi(content_type, data) == [found.model]
        assert form_readers.python_multipart(content_type, data) == [found.model]
        assert form_readers.without_quotes(content_type, data) == [found.model]
    else:
        assert found.status in {400, 415}


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(forms())
def test_every_engine_reads_the_model_that_the_gateway_read(case: tuple[bytes, bytes]) -> None:
    every_engine_reads_what_the_gateway_read(*case)


@settings(max_examples=300, deadline=None)
@given(forms(), st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20))
def test_another_name_changes_the_models_bytes_and_no_others(case: tuple[bytes, bytes], name: str) -> None:
    content_type, data = case
    found = read_form(content_type, data)
    if isinstance(found, Form):
        renamed = found.with_model(name)
        assert renamed == data[: found.start] + name.encode() + data[found.end :]
        again = read_form(content_type, renamed)
        assert isinstance(again, Form)
        assert again.model == name


DEFECTS: dict[str, tuple[str, object]] = {
    "quotes hide a name": ("_LOOSE_NAME", re.compile(rb"form-data", re.IGNORECASE)),
    "any disposition will do": ("_DISPOSITION", re.compile(rb"(?s).*")),
    "a lone line feed is no line end": ("_HEADER", re.compile(rb"(?s)([\w-]+):[ \t]*(.*)")),
    "any boundary parameter will do": (
        "_CONTENT_TYPE",
        re.compile(rb'(?i:multipart/form-data); boundary=(?:"([\w;=]+)"|([\w=]+))(?:;.*)?'),
    ),
}


_MODEL = b'Content-Disposition: form-data; name="model"'
WITNESSES: dict[str, tuple[bytes, bytes]] = {
    "quotes hide a name": (
        TYPE,
        b"--xYz\r\n%b\r\n\r\nm\r\n--xYz\r\n"
        b'Content-Disposition: form-data; name="file"; filename="a"; name="model"\r\n\r\nm\r\n--xYz--\r\n' % _MODEL,
    ),
    "any disposition will do": (
        TYPE,
        b'--xYz\r\nContent-Disposition: attachment; name="model"\r\n\r\nm\r\n--xYz--\r\n',
    ),
    "a lone line feed is no line end": (
        TYPE,
        b'--xYz\r\nX: y\nContent-Disposition: form-data; name="x"\r\n%b\r\n\r\nm\r\n--xYz--\r\n' % _MODEL,
    ),
    "any boundary parameter will do": (
        b"multipart/form-data; boundary=xYz; boundary=b",
        b"--xYz\r\n%b\r\n\r\nm\r\n--xYz--\r\n" % _MODEL,
    ),
}
"""For each defect a form that `forms` can make, and that engines read in another way: found by it, and made small."""


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_seeded_defect_lets_an_engine_read_another_model(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    every_engine_reads_what_the_gateway_read(*WITNESSES[defect])
    monkeypatch.setattr(multipart, *DEFECTS[defect])
    with pytest.raises(AssertionError):
        every_engine_reads_what_the_gateway_read(*WITNESSES[defect])


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1),
    st.binary(max_size=300),
    st.text(st.characters(exclude_characters=";", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20),
    st.sampled_from(["true", "True", "1", "false", None]),
)
def test_what_a_usual_client_sends_is_accepted(model: str, content: bytes, file: str, stream: str | None) -> None:
    fields = {"model": model, "language": "en", "timestamp_granularities[]": ["word", "segment"]}
    request = httpx.Request(
        "POST",
        "http://gw/v1/audio/transcriptions",
        data=fields if stream is None else fields | {"stream": stream},
        files={"file": (file, content, "audio/wav")},
    )
    found = read_form(request.headers["content-type"].encode(), request.read())
    assert isinstance(found, Form), found
    assert (found.model, found.stream) == (model, stream in {"true", "True", "1"})


@pytest.mark.parametrize(
    ("head", "content"),
    [
        (b'Content-Disposition: form-data; name="model"; filename="m.txt"', b"m"),
        (b"Content-Disposition: form-data; name=\"model\"; filename*=UTF-8''m", b"m"),
        (MODEL + b"\r\nContent-Type: application/json", b'"m"'),
        (MODEL + b"\r\nContent-Type: text/plain; charset=utf-16", b"m"),
        (MODEL + b"\r\nContent-Transfer-Encoding: base64", b"bQ=="),
        (MODEL, b""),
        (MODEL, b"\xff"),
        (FIELD % b"models", b"m"),
    ],
)
def test_a_model_that_is_no_plain_text_is_refused(head: bytes, content: bytes) -> None:
    found = refusal(form((head, content), (FILE, b"RIFF")))
    assert (found.status, found.code) == (400, "invalid_body")


@pytest.mark.parametrize(
    "head", [MODEL, MODEL + b"\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Transfer-Encoding: 8bit"]
)
def test_a_model_as_plain_text_is_accepted(head: bytes) -> None:
    found = read_form(TYPE, form((FILE, b"RIFF"), (head, b"m")))
    assert isinstance(found, Form)
    assert found.model == "m"


def test_the_size_of_a_form_is_told_without_its_files() -> None:
    found = read_form(TYPE, form((FILE, bytes(5000)), (MODEL, b"m"), (FIELD % b"prompt", b"Names: Ada, Bob")))
    assert isinstance(found, Form)
    assert found.text_bytes == 16


def test_two_models_are_refused_in_words_that_say_so() -> None:
    assert "more than once" in refusal(form((MODEL, b"m"), (FILE, b"RIFF"), (MODEL, b"m"))).message


@pytest.mark.parametrize("size", [1, 70])
def test_a_boundary_has_1_to_70_characters(size: int) -> None:
    boundary = b"b" * size
    found = read_form(b"multipart/form-data; boundary=" + boundary, form((MODEL, b"m"), boundary=boundary))
    assert isinstance(found, Form)
    for wrong in (boundary * 70 + b"b", b""):
        assert refusal(form((MODEL, b"m"), boundary=wrong), b"multipart/form-data; boundary=" + wrong).status == 400


@pytest.mark.parametrize(
    "content_type", [b"", b"application/json", b"application/x-www-form-urlencoded", b"multipart/mixed"]
)
def test_another_type_of_body_is_refused_as_such(content_type: bytes) -> None:
    found = refusal(form((MODEL, b"m")), content_type)
    assert (found.status, found.code) == (415, "content_type")


def test_two_content_types_are_refused() -> None:
    assert refusal(form((MODEL, b"m")), TYPE + b"," + TYPE).status == 400


def test_the_number_of_parts_and_the_size_of_their_heads_are_limited() -> None:
    most = [(FIELD % b"x", b"y")] * (MOST_PARTS - 1)
    assert isinstance(read_form(TYPE, form((MODEL, b"m"), *most)), Form)
    assert "parts" in refusal(form((MODEL, b"m"), (FIELD % b"x", b"y"), *most)).message
    assert "headers" in refusal(form((MODEL + b"\r\nX: " + b"y" * 5000, b"m"))).message


def test_a_file_is_not_copied() -> None:
    class Counted(bytes):
        copied = 0

        def __getitem__(self, key: Any) -> Any:
            found = super().__getitem__(key)
            Counted.copied += len(found) if isinstance(found, bytes) else 0
            return found

    found = read_form(TYPE, Counted(form((FILE, bytes(5_000_000)), (MODEL, b"m"))))
    assert isinstance(found, Form)
    assert Counted.copied < 1000
