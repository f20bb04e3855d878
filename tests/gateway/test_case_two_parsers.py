# SPDX-License-Identifier: Apache-2.0
"""Damaged requests, one behind the other: where a strict parser sees other requests, none reaches an engine (50)."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator

import h11
import pytest

from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.engine import LAST_CHUNK, Engine, chunk, whole
from tests.gateway.harness import RunningGateway, endpoint, route

DAMAGED = 150
PIECES = [
    *(b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\x00", b"\x0b", b"\xff", b" ", b"\t", b":", b";", b",", b"+", b"-", b"_"),
    *(b"0", b"1", b"f", b"x", b"chunked", b"0\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"HTTP/1.1"),
    *(b"transfer-encoding: chunked\r\n", b"content-length: 5\r\n", b"Content-Length: 0\r\n", b"connection: close\r\n"),
]
HARMLESS = ("Host", "request line")
"""What h11 refuses and the gateway need not: hosts, of which it reads none, and spaces and empty lines ahead."""


@pytest.fixture(scope="module")
def one(module_gateway: RunningGateway) -> Iterator[Engine]:
    engine = Engine(answer=lambda request, wire: wire.send(whole(request.body)))
    module_gateway.publish([route([endpoint(engine)])])
    yield engine
    engine.stop()


def framed(chance: random.Random, body: bytes) -> bytes:
    if chance.random() < 0.5:
        return post(body)
    head = f"POST {CHAT} HTTP/1.1\r\nhost: gw\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    return head + chunk(body[:9]) + chunk(body[9:]) + LAST_CHUNK


def damaged(chance: random.Random, data: bytes) -> bytes:
    for _number in range(chance.choice([1, 1, 2])):
        at = chance.randrange(min(len(data), chance.choice([60, 150, 400])))
        how = chance.random()
        if how < 0.6:
            data = data[:at] + chance.choice(PIECES) + data[at:]
        elif how < 0.8:
            data = data[:at] + bytes((data[at] ^ (1 << chance.randrange(8)),)) + data[at + 1 :]
        else:
            data = data[:at] + data[at + chance.choice([1, 2, 5]) :]
    return data


def read_by_h11(data: bytes) -> tuple[list[bytes], str | None]:
    """Bodies of the requests that a strict server sees, and why it stops."""
    bodies: list[bytes] = []
    server = h11.Connection(h11.SERVER)
    server.receive_data(data)
    try:
        while True:
            event = server.next_event()
            if isinstance(event, h11.Request):
                bodies.append(b"")
            elif isinstance(event, h11.Data):
                bodies[-1] += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                server.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                server.send(h11.EndOfMessage())
                if server.our_state is not h11.DONE:
                    return bodies, None
                server.start_next_cycle()
            else:
                return bodies, None
    except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
        return bodies, str(error)


def answers(url: str, data: bytes) -> None:
    """Sends it all, and reads until two answers are there, or nothing more comes."""
    with Client(url) as client, contextlib.suppress(OSError):
        client.socket.settimeout(0.2)
        client.send(data)
        got = b""
        while got.count(b"HTTP/1.1 ") < 2 or not got.endswith(b"}"):
            more = client.socket.recv(65536)
            if not more:
                break
            got += more


def test_no_engine_sees_a_request_that_a_strict_parser_does_not(module_gateway: RunningGateway, one: Engine) -> None:
    chance = random.Random(50)
    for number in range(DAMAGED):
        first, second = (asking(user=user, metadata={"number": number}) for user in ("first", "second"))
        data = damaged(chance, framed(chance, first) + framed(chance, second))
        before = len(one.requests)
        answers(module_gateway.url, data)
        module_gateway.assert_nothing_held()
        bodies, error = read_by_h11(data)
        if error is not None and any(word in error for word in HARMLESS):
            continue
        seen = [request.body for request in one.requests[before:]]
        assert [body for body in seen if body not in bodies] == [], (data, error)
        assert [json.loads(body)["metadata"]["number"] for body in seen] == [number] * len(seen)
