# SPDX-License-Identifier: Apache-2.0
"""Requests that two parsers could cut differently: refused with one answer and a closed connection (case 50, G8)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.engine import LAST_CHUNK, Engine, chunk, whole
from tests.gateway.harness import RunningGateway, endpoint, route

SMUGGLED = post(asking(user="smuggled"))
BODY = asking(user="first")


@pytest.fixture(scope="module")
def one(module_gateway: RunningGateway) -> Iterator[Engine]:
    engine = Engine(answer=lambda request, wire: wire.send(whole(request.body)))
    module_gateway.publish([route([endpoint(engine)])])
    yield engine
    engine.stop()


@pytest.fixture(autouse=True)
def _nothing_left(module_gateway: RunningGateway, one: Engine) -> Iterator[None]:
    one.requests.clear()
    yield
    module_gateway.assert_nothing_held()


def framed(headers: bytes, body: bytes, target: bytes = CHAT.encode()) -> bytes:
    return b"POST " + target + b" HTTP/1.1\r\nhost: gw\r\n" + headers + b"\r\n" + body


def sized(value: bytes) -> bytes:
    return framed(b"content-length: " + value + b"\r\n", BODY)


def coded(value: bytes) -> bytes:
    return framed(b"transfer-encoding: " + value + b"\r\n", chunk(BODY) + LAST_CHUNK)


def chunked(body: bytes) -> bytes:
    return framed(b"transfer-encoding: chunked\r\n", body)


SIZE = b"%d" % len(BODY)
HEXED = b"%x" % len(BODY)

LENGTHS = [
    b"-" + SIZE,
    b"0x" + HEXED,
    SIZE + b" " + SIZE,
    SIZE + b", " + SIZE,
    SIZE + b",",
    SIZE + b".0",
    SIZE + b"e0",
    SIZE + b";",
    SIZE + b"\x0b",
    SIZE + b"\x00",
    b'"' + SIZE + b'"',
    b"1_0",
    b"\xd9\xa5",
    b"1" + b"0" * 400,
    b"18446744073709551617",
    b"",
    b" ",
    b"+",
]
CODINGS = [
    b"chunked, chunked",
    b"chunked;q=1",
    b'"chunked"',
    b"\x0bchunked",
    b"chunked\x00",
    b"chunked\x0c",
    b"chunked,",
    b",chunked",
    b"identity",
    b"deflate",
    b"x, chunked",
    b"chunkedx",
    b"cow",
    b"",
]
CHUNK_SIZES = [
    b"-" + HEXED,
    b"+" + HEXED,
    b"0x" + HEXED,
    b" " + HEXED,
    b"\t" + HEXED,
    HEXED + b"\x00",
    HEXED + b",",
    HEXED + b"_",
    HEXED + b"\xa0",
    b"",
    b";ext",
    b"g",
    b"f" * 17,
    b"1" + b"0" * 16,
    b"f" * 4000,
]
SHAPES = {
    "two lengths that differ in form": framed(b"content-length: %b\r\nContent-Length: 0%b\r\n" % (SIZE, SIZE), BODY),
    "a length after a coding": framed(b"transfer-encoding: chunked\r\ncontent-length: 0\r\n", chunk(BODY) + LAST_CHUNK),
    "a length and a hidden coding": framed(b"content-length: 4\r\nTransfer-Encoding : chunked\r\n", BODY),
    "a coding in a folded line": framed(b"transfer-encoding:\r\n chunked\r\n", chunk(BODY) + LAST_CHUNK),
    "a length in a folded line": framed(b"content-length:\r\n " + SIZE + b"\r\n", BODY),
    "a first header that is folded": framed(b" x: y\r\ncontent-length: " + SIZE + b"\r\n", BODY),
    "a tab before the colon": framed(b"content-length\t: " + SIZE + b"\r\n", BODY),
    "a header without a name": framed(b": x\r\ncontent-length: " + SIZE + b"\r\n", BODY),
    "a header without a colon": framed(b"content-length " + SIZE + b"\r\n", BODY),
    "a name with a zero byte": framed(b"x\x00y: z\r\ncontent-length: " + SIZE + b"\r\n", BODY),
    "a value with a zero byte": framed(b"x: a\x00b\r\ncontent-length: " + SIZE + b"\r\n", BODY),
    "a value with a bare CR": framed(b"x: a\rcontent-length: 0\r\ncontent-length: " + SIZE + b"\r\n", BODY),
    "a name with a bare CR": framed(b"x\ry: a\r\ncontent-length: " + SIZE + b"\r\n", BODY),
    "a name in brackets": framed(b"(x): a\r\ncontent-length: " + SIZE + b"\r\n", BODY),
    "lines that end with CR": framed(b"content-length: " + SIZE + b"\r\n", BODY).replace(b"\r\n", b"\r"),
    "lines that end with CR CR LF": framed(b"content-length: " + SIZE + b"\r\r\n", BODY),
    "a tab in the request line": sized(SIZE).replace(b"POST ", b"POST\t"),
    "no target": sized(SIZE).replace(CHAT.encode(), b""),
    "a target with a space": sized(SIZE).replace(CHAT.encode(), CHAT.encode() + b" x"),
    "a target with a zero byte": sized(SIZE).replace(CHAT.encode(), CHAT.encode() + b"\x00"),
    "a target with a bare CR": sized(SIZE).replace(CHAT.encode(), CHAT.encode() + b"\rx"),
    "a version of a digit more": sized(SIZE).replace(b"HTTP/1.1", b"HTTP/1.10"),
    "a version of no HTTP": sized(SIZE).replace(b"HTTP/1.1", b"HTTPS/1.1"),
    "a version to come": sized(SIZE).replace(b"HTTP/1.1", b"HTTP/3.0"),
    "a method that is none": sized(SIZE).replace(b"POST", b"P(ST"),
    "a method in small letters": sized(SIZE).replace(b"POST", b"post"),
    "a chunk longer than it says": chunked(HEXED + b"\r\n" + BODY + b"xx\r\n" + LAST_CHUNK),
    "a chunk shorter than it says": chunked(b"%x\r\n" % (len(BODY) + 1) + BODY + b"\r\n" + LAST_CHUNK),
    "a chunk without its end": chunked(HEXED + b"\r\n" + BODY + LAST_CHUNK),
    "a last chunk with a body": chunked(chunk(BODY) + b"0\r\nx\r\n\r\n"),
    "a length in a trailer": chunked(chunk(BODY) + b"0\r\ncontent-length: 99\r\n\r\n"),
    "a coding in a trailer": chunked(chunk(BODY) + b"0\r\ntransfer-encoding: chunked\r\n\r\n"),
    "a trailer that is folded": chunked(chunk(BODY) + b"0\r\n x: y\r\n\r\n"),
    "a trailer with a zero byte": chunked(chunk(BODY) + b"0\r\nx: \x00\r\n\r\n"),
    "a chunk extension with a bare CR": chunked(HEXED + b";a\rb\r\n" + BODY + b"\r\n" + LAST_CHUNK),
    "a chunk extension with a zero byte": chunked(HEXED + b";a\x00\r\n" + BODY + b"\r\n" + LAST_CHUNK),
    "the greeting of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    "the greeting of TLS": b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + b"\x5a" * 160,
    "the PROXY protocol": b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
    "zero bytes": b"\x00" * 100,
}
BARE_LF = {
    "lines that end with LF": sized(SIZE).replace(b"\r\n", b"\n"),
    "a length behind a bare LF": framed(b"x: a\ncontent-length: %b\r\n" % SIZE, BODY),
    "an empty line of LF": sized(SIZE).replace(b"\r\n\r\n", b"\r\n\n"),
    "a chunk size that ends with LF": chunked(HEXED + b"\n" + BODY + b"\r\n" + LAST_CHUNK),
    "a chunk that ends with LF": chunked(HEXED + b"\r\n" + BODY + b"\n" + LAST_CHUNK),
    "a chunk extension with a bare LF": chunked(HEXED + b";a\nb\r\n" + BODY + b"\r\n" + LAST_CHUNK),
    "a last chunk that ends with LF": chunked(chunk(BODY) + b"0\n\n"),
}
REFUSED = {
    **{f"content-length {value[:30]!r}": sized(value) for value in LENGTHS},
    **{f"transfer-encoding {value!r}": coded(value) for value in CODINGS},
    **{f"chunk size {value[:30]!r}": chunked(value + b"\r\n" + BODY + b"\r\n" + LAST_CHUNK) for value in CHUNK_SIZES},
    **SHAPES,
    **BARE_LF,
}


@pytest.mark.parametrize("attack", REFUSED.values(), ids=REFUSED)
def test_a_request_that_could_be_cut_in_two_ways_gets_one_refusal_and_nothing_behind_it_is_read(
    module_gateway: RunningGateway, one: Engine, attack: bytes
) -> None:
    with Client(module_gateway.url) as client:
        client.send(attack + SMUGGLED)
        answer = client.rest()
    assert answer[:12] in {b"HTTP/1.1 400", b"HTTP/1.1 501", b"HTTP/1.1 505"}
    assert answer.count(b"x-llmgw-reason") == 1
    assert one.requests == []


HARMLESS = {
    "a coding in capitals": coded(b"CHUNKED"),
    "spaces around a length": sized(b" \t" + SIZE + b" \t"),
    "a length with zeros ahead": sized(b"000" + SIZE),
    "no space before a length": framed(b"content-length:%b\r\n" % SIZE, BODY),
    "empty lines ahead": b"\r\n\r\n" + sized(SIZE),
    "a chunk size with zeros ahead": chunked(b"0000" + HEXED + b"\r\n" + BODY + b"\r\n" + LAST_CHUNK),
    "a chunk size in capitals": chunked(HEXED.upper() + b"\r\n" + BODY + b"\r\n" + LAST_CHUNK),
    "a chunk extension": chunked(HEXED + b';name="value"\r\n' + BODY + b"\r\n0;last\r\n\r\n"),
    "a name of framing with an underscore": framed(b"content_length: 3\r\ncontent-length: %b\r\n" % SIZE, BODY),
    "two spaces in the request line": sized(SIZE).replace(b"POST ", b"POST  "),
    "an empty value": framed(b"x:\r\ncontent-length: %b\r\n" % SIZE, BODY),
}


@pytest.mark.parametrize("request_bytes", HARMLESS.values(), ids=HARMLESS)
def test_what_is_odd_but_has_one_meaning_reaches_the_engine_in_its_plainest_form(
    module_gateway: RunningGateway, one: Engine, request_bytes: bytes
) -> None:
    with Client(module_gateway.url) as client:
        for _again in range(2):
            client.send(request_bytes)
            assert client.answer()[2] == BODY
    for seen in one.requests:
        assert seen.values("content-length") == [SIZE.decode()]
        assert seen.values("transfer-encoding") == []


def test_trailers_of_a_request_reach_nobody(module_gateway: RunningGateway, one: Engine) -> None:
    trailers = b"authorization: Bearer x\r\nx-late: 1\r\nhost: evil\r\nconnection: host\r\n"
    with Client(module_gateway.url) as client:
        client.send(chunked(chunk(BODY) + b"0\r\n" + trailers + b"\r\n") + post(BODY))
        assert [client.answer()[2] for _request in range(2)] == [BODY, BODY]
    assert len(one.requests) == 2
    for seen in one.requests:
        assert seen.values("content-length") == [SIZE.decode()]
        assert seen.values("host") == [f"127.0.0.1:{one.port}"]
        for name in ("x-late", "authorization", "transfer-encoding"):
            assert seen.values(name) == []


def test_a_length_that_no_body_has_is_refused_before_the_body_comes(
    module_gateway: RunningGateway, one: Engine
) -> None:
    with Client(module_gateway.url) as client:
        client.send(framed(b"content-length: " + b"9" * 19 + b"\r\n", BODY + SMUGGLED))
        assert client.head()[0] in {400, 413}
    assert one.requests == []


def test_a_request_of_http_0_9_gets_one_answer_and_reaches_no_engine(
    module_gateway: RunningGateway, one: Engine
) -> None:
    with Client(module_gateway.url) as client:
        client.send(b"GET /v1/models\r\n\r\n" + SMUGGLED)
        assert client.rest().count(b"HTTP/1.1 ") <= 1
    assert one.requests == []


UNREAD = {
    "no such path": ("POST /v1/nothing", "", 404),
    "another method": ("PUT /v1/chat/completions", "", 405),
    "a question with a body": ("GET /v1/models", "", 200),
    "health with a body": ("GET /healthz", "", 200),
    "options with a body": ("OPTIONS /v1/chat/completions", "", 204),
    "a compressed body": ("POST /v1/chat/completions", "content-encoding: br\r\n", 415),
    "no model": ("POST /v1/chat/completions", "", 400),
}


@pytest.mark.parametrize("in_chunks", [False, True], ids=["sized", "in chunks"])
@pytest.mark.parametrize("way", UNREAD.values(), ids=UNREAD)
def test_the_body_of_a_refused_request_is_never_taken_for_a_request(
    module_gateway: RunningGateway, one: Engine, way: tuple[str, str, int], in_chunks: bool
) -> None:
    start, headers, status = way
    framing = "transfer-encoding: chunked" if in_chunks else f"content-length: {len(SMUGGLED)}"
    body = chunk(SMUGGLED) + LAST_CHUNK if in_chunks else SMUGGLED
    with Client(module_gateway.url) as client:
        client.send(f"{start} HTTP/1.1\r\nhost: gw\r\n{headers}{framing}\r\n\r\n".encode() + body)
        answered = client.answer()
        assert answered[0] == status
        if dict(answered[1]).get("connection") == "close":
            assert client.rest() == b""
        else:
            client.send(post(BODY))
            assert client.answer()[2] == BODY
    assert all(b"smuggled" not in seen.body for seen in one.requests)


def test_a_hundred_thousand_chunks_of_one_byte_are_one_body(module_gateway: RunningGateway, one: Engine) -> None:
    body = asking(user="x" * 100_000)
    with Client(module_gateway.url) as client:
        client.send(chunked(b"".join(b"1\r\n%c\r\n" % byte for byte in body) + LAST_CHUNK))
        assert client.answer()[2] == body
    assert one.requests[0].body == body
