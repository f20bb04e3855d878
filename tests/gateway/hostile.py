# SPDX-License-Identifier: Apache-2.0
"""Answers of hostile engines, as bytes and how they end; and what a strict client makes of what it is sent."""

from __future__ import annotations

import re
from dataclasses import dataclass

import h11
from hypothesis import strategies as st

from tests.gateway.engine import Request, Wire, chunk

# The gateway runs on a thread of the test's process and draws its pauses from `random`, which hypothesis watches.
ITS_OWN_CHANCE = "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"


class Hostile:
    """What an engine writes, cut into the pieces that it writes at once, and how it leaves."""

    def __init__(self, pieces: tuple[bytes, ...], end: str) -> None:
        self.pieces, self.end = pieces, end

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    def __repr__(self) -> str:
        return f"Hostile({[piece[:400] for piece in self.pieces]}, {self.end})"

    def __call__(self, _request: Request, wire: Wire) -> None:
        """The answer on the wire of a test's engine."""
        for piece in self.pieces:
            wire.send(piece)
        if self.end == "hang":
            wire.client_left()
        if self.end == "reset":
            wire.reset()
        else:
            wire.close()


STATUS_LINES = st.sampled_from(
    [
        *[b"HTTP/1.1 200 OK\r\n"] * 6,
        b"HTTP/1.1 500 Oops\r\n",
        b"HTTP/1.1 204 No Content\r\n",
        b"HTTP/1.1 205 Reset\r\n",
        b"HTTP/1.1 304 Not Modified\r\n",
        b"HTTP/1.1 429 Busy\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 103 Hints\r\nlink: x\r\ncontent-length: 9\r\n\r\nHTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 199 Soon\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 40 + b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200\r\n",
        b"HTTP/1.1 200 \r\n",
        b"HTTP/1.1 200 \xff\xfe\r\n",
        b"HTTP/1.1 099 Low\r\n",
        b"HTTP/1.1 600 High\r\n",
        b"HTTP/1.1 999 Highest\r\n",
        b"HTTP/1.1 2000 Long\r\n",
        b"HTTP/1.1 20 Short\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"HTTP/2.0 200 OK\r\n",
        b"HTTP/0.9 200 OK\r\n",
        b"HTTP/1.1 OK\r\n",
        b"ICY 200 OK\r\n",
        b"GET / HTTP/1.1\r\n",
        b"\r\n\r\nHTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\n",
        b"",
    ]
)
HEADERS = st.lists(
    st.sampled_from(
        [
            b"content-type: application/json\r\n",
            b"content-type: text/event-stream\r\n",
            b"set-cookie: a=1\r\nset-cookie: b=2\r\n",
            b"x-bad: a\rinjected: 1\r\n",
            b"x-bad: a\ninjected: 1\r\n",
            b"x-bad: a\x00b\r\n",
            b"x-bad: a\x7f\x01b\r\n",
            b"x-folded: a\r\n b\r\n",
            b"x bad: a\r\n",
            b"x-bad : a\r\n",
            b": a\r\n",
            b"no colon\r\n",
            b"x-empty:\r\n",
            b"\xff\xfe: \xff\r\n",
            b"connection: close\r\n",
            b"connection: keep-alive, x-hop\r\nx-hop: 1\r\n",
            b"connection: content-length, transfer-encoding\r\n",
            b"connection: upgrade\r\nupgrade: h2c\r\n",
            b"trailer: x-late\r\n",
            b"keep-alive: timeout=0\r\n",
            b"x-llmgw-reason: forged\r\n",
            b"x-long: " + b"y" * 20_000 + b"\r\n",
            b"".join(b"x-%d: y\r\n" % number for number in range(300)),
        ]
    ),
    max_size=3,
).map(b"".join)
TEXT = b'data: {"choices":[{"delta":{"content":"hello"}}]}\n\ndata: [DONE]\n\n'
SIZE = b"%d" % len(TEXT)
BODIES = st.sampled_from(
    [
        *[b"content-length: " + SIZE + b"\r\n\r\n" + TEXT] * 3,
        *[b"transfer-encoding: chunked\r\n\r\n" + chunk(TEXT) + chunk(TEXT) + b"0\r\n\r\n"] * 3,
        b"\r\n" + TEXT,
        b"\r\n",
        b"",
        b"content-length: 0\r\n\r\n",
        b"content-length: 5\r\n\r\n" + TEXT,
        b"content-length: 5000\r\n\r\n" + TEXT,
        b"content-length: %b\r\ncontent-length: %b\r\n\r\n%b" % (SIZE, SIZE, TEXT),
        b"content-length: %b\r\ncontent-length: 5\r\n\r\n%b" % (SIZE, TEXT),
        b"content-length: %b, %b\r\n\r\n%b" % (SIZE, SIZE, TEXT),
        b"content-length: -1\r\n\r\n" + TEXT,
        b"content-length: +5\r\n\r\n" + TEXT,
        b"content-length: 0x5\r\n\r\n" + TEXT,
        b"content-length: 99999999999999999999999\r\n\r\n" + TEXT,
        b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(TEXT) + b"0\r\n\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n" + chunk(TEXT) + b"0\r\n\r\n",
        b"transfer-encoding: gzip, chunked\r\n\r\n" + chunk(TEXT) + b"0\r\n\r\n",
        b"transfer-encoding: chunked, gzip\r\n\r\n" + TEXT,
        b"transfer-encoding: identity\r\n\r\n" + TEXT,
        b"transfer-encoding: xchunked\r\n\r\n" + TEXT,
        b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(TEXT) + b"0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n" + chunk(TEXT) + b"0\r\nx-late: 1\r\ncontent-length: 3\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n" + chunk(TEXT) + b"0\r\nx-late: a\rb: 1\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n" + chunk(TEXT),
        b"transfer-encoding: chunked\r\n\r\n" + chunk(TEXT) + b"zz\r\nx\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n" + chunk(TEXT) + b"-5\r\nhello\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n5\r\nhelloworld\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0;z\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n" + TEXT,
        b"transfer-encoding: chunked\r\n\r\n" + b"0" * 50_000 + b"5\r\nhello\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n5\nhello\n0\n\n",
        b"transfer-encoding: chunked\r\n\r\n"
        + chunk(TEXT)
        + b"0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nmore",
        b"content-length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged",
        b"content-length: " + SIZE + b"\n\n" + TEXT,
    ]
)


@st.composite
def hostile_answers(draw: st.DrawFn) -> Hostile:
    """An answer that is nearly right, or not at all, torn at one place or changed by a byte."""
    data = draw(STATUS_LINES) + draw(HEADERS) + draw(BODIES)
    damage = draw(st.sampled_from(["none", "none", "cut", "flip", "insert", "noise"]))
    at = draw(st.integers(0, len(data)))
    if damage == "cut":
        data = data[:at]
    elif damage == "flip" and at < len(data):
        data = data[:at] + bytes((data[at] ^ (1 << draw(st.integers(0, 7))),)) + data[at + 1 :]
    elif damage == "insert":
        data = data[:at] + draw(st.sampled_from([b"\r", b"\n", b"\x00", b"\r\n", b"\r\n\r\n", b" ", b":"])) + data[at:]
    elif damage == "noise":
        data = draw(st.binary(max_size=200))
    tear = draw(st.integers(0, len(data)))
    end = draw(st.sampled_from(["close", "close", "close", "reset", "reset", "hang"]))
    return Hostile(tuple(piece for piece in (data[:tear], data[tear:]) if piece), end)


@dataclass(frozen=True)
class Got:
    """One answer as a strict parser reads it. `whole`: it came to its declared end."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    whole: bool

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]


_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9a-zA-Z-]+:[ \t]*[\t\x20-\x7e\x80-\xff]*\Z")


def read_strictly(data: bytes, *, closed: bool = True) -> Got:
    """The only answer in `data`. Raises where h11 does, and where a head has lines that HTTP does not allow."""
    head, end, _body = data.partition(b"\r\n\r\n")
    assert end, f"no head: {data[:200]!r}"
    first, *lines = head.split(b"\r\n")
    assert re.fullmatch(rb"HTTP/1\.1 [1-5][0-9][0-9] [\t\x20-\x7e\x80-\xff]*", first), first
    for line in lines:
        assert _LINE.match(line), line
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "gw")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    response: h11.Response | None = None
    body = b""
    whole = False
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if not closed:
                    break
                closed = False
                connection.receive_data(b"")
            elif isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                assert list(event.headers) == [], "trailers came through"
                whole = True
                break
            else:
                break
    except h11.RemoteProtocolError as error:
        if response is None or "peer closed" not in str(error):
            raise
    assert response is not None, data[:300]
    assert not whole or connection.trailing_data[0] == b"", f"more than one answer: {data!r}"
    return Got(response.status_code, tuple((bytes(k).lower(), bytes(v)) for k, v in response.headers), body, whole)
