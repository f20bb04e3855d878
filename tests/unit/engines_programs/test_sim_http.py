# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 as the simulator speaks it."""

from __future__ import annotations

import socket

import pytest

from tests.unit.engines_programs.programs import Program

BODY = b'{"prompt": "hello", "max_tokens": 1}'


def talk(sim: Program, sent: bytes) -> bytes:
    """All that comes back on one connection; the sender closes its side only when the simulator has closed."""
    with socket.create_connection(("127.0.0.1", sim.port), timeout=10) as connection:
        connection.sendall(sent)
        received = b""
        while data := connection.recv(65536):
            received += data
        return received


def test_one_connection_carries_several_requests(shared_sim: Program) -> None:
    connection = shared_sim.connect()
    for _ in range(3):
        connection.request("POST", "/v1/completions", BODY)
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200
        assert response.getheader("content-length") == str(len(body))
    assert connection.sock is not None
    connection.close()


def test_a_connection_goes_on_after_a_stream(shared_sim: Program) -> None:
    connection = shared_sim.connect()
    connection.request("POST", "/v1/completions", b'{"prompt": "hello", "stream": true}')
    assert connection.getresponse().read().endswith(b"data: [DONE]\n\n")
    sock = connection.sock
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    assert connection.sock is sock
    connection.close()


def test_pipelined_requests_are_answered_in_order(shared_sim: Program) -> None:
    first = b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
    received = talk(shared_sim, first + b"GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert received.endswith(b'{"detail": "Not Found"}')


def test_a_chunked_body_is_read(shared_sim: Program) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:5], BODY[5:])) + b"0\r\n\r\n"
    head = b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    assert b'"completion_tokens": 1' in talk(shared_sim, head + chunks)


def test_a_body_in_small_pieces_is_read(shared_sim: Program) -> None:
    sent = b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(BODY), BODY)
    with socket.create_connection(("127.0.0.1", shared_sim.port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for position in range(0, len(sent), 7):
            connection.sendall(sent[position : position + 7])
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")


def test_an_old_client_gets_its_answer_and_the_end(shared_sim: Program) -> None:
    assert talk(shared_sim, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nLong: " + b"x" * 70_000,
    ],
)
def test_what_is_no_request_gets_400_and_the_end(shared_sim: Program, sent: bytes) -> None:
    assert talk(shared_sim, sent).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert shared_sim.ask("GET", "/health")[0] == 200
