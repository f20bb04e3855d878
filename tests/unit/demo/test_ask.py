# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from llmgw.demo.ask import ask, request_body
from llmgw.errors import LlmgwError


class Server:
    """Answers one request with given bytes and keeps what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(10)
        self._answer = answer
        self.asked = b""
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", int(self._listener.getsockname()[1]))

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        try:
            connection, _peer = self._listener.accept()
        except TimeoutError:
            return
        with connection:
            connection.settimeout(10)
            while b"max_tokens" not in self.asked:
                self.asked += connection.recv(65536)
            connection.sendall(self._answer)


@pytest.fixture
def serve() -> Iterator[Callable[[bytes], Server]]:
    servers: list[Server] = []

    def make(answer: bytes) -> Server:
        servers.append(Server(answer))
        return servers[-1]

    yield make
    for one in servers:
        one.close()


def stream(*data: str, end: bytes = b"0\r\n\r\n") -> bytes:
    """A streamed answer, each event in a chunk of its own."""
    events = [f"{'' if one.startswith(':') else 'data: '}{one}\n\n".encode() for one in data]
    chunks = b"".join(f"{len(event):x}\r\n".encode() + event + b"\r\n" for event in events)
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + end


def delta(text: str | None) -> str:
    return json.dumps({"choices": [{"delta": {"role": "assistant"} if text is None else {"content": text}}]})


def test_the_answer_comes_piece_by_piece(serve: Callable[[bytes], Server]) -> None:
    server = serve(stream(delta(None), delta("It "), ": a comment", delta("spreads\n"), '{"choices": []}', "[DONE]"))
    assert list(ask(server.address, "smollm2", "what?")) == ["It ", "spreads\n"]
    head, _, body = server.asked.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1")
    assert json.loads(body) == request_body("smollm2", "what?")
    assert json.loads(body)["stream"] is True


REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\n{loading}"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (REFUSAL, "the gateway answered 503: {loading}"),
        (stream(delta("It ")), "broke off before its end"),
        (stream(delta("It "), end=b""), "gave no whole answer|broke off before its end"),
        (stream(delta("It "), "{not json"), "gave no whole answer"),
        (b"", "gave no whole answer"),
        (b"SSH-2.0-OpenSSH\r\n", "gave no whole answer"),
    ],
    ids=["a refusal", "no end", "cut off", "no json", "nothing", "no http"],
)
def test_an_answer_that_is_not_whole_is_an_error(serve: Callable[[bytes], Server], answer: bytes, says: str) -> None:
    with pytest.raises(LlmgwError, match=says) as caught:
        list(ask(serve(answer).address, "smollm2", "what?"))
    assert caught.value.code == "demo-answer"


def test_a_gateway_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = ("127.0.0.1", int(listener.getsockname()[1]))
    with pytest.raises(LlmgwError) as caught:
        list(ask(address, "smollm2", "what?"))
    assert caught.value.code == "demo-answer"
