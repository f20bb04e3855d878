# SPDX-License-Identifier: Apache-2.0
"""A request's head has a limit and a deadline, so that a client without any key can hold neither memory nor sockets."""

from __future__ import annotations

import contextlib
import time

import pytest

from llmgw.gateway.wire import client as client_side
from tests.gateway.client import Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import Request, Wire, answer_ok
from tests.gateway.harness import RunningGateway, endpoint, route


def late(request: Request, wire: Wire) -> None:
    time.sleep(0.5)
    answer_ok(request, wire)


def test_a_head_without_end_is_refused(gateway: RunningGateway) -> None:
    with Client(gateway.url) as client:
        client.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: gw\r\n")
        with contextlib.suppress(OSError):
            for number in range(40_000):
                client.send(b"x-%d: %b\r\n" % (number, b"y" * 2000))
        with contextlib.suppress(ConnectionResetError):
            assert client.rest().startswith(b"HTTP/1.1 431 ")
        assert number < 20_000
    gateway.assert_nothing_held()


@pytest.mark.parametrize("begun", [b"", b"POST /v1/chat/completions HTTP/1.1\r\nhost:"])
def test_a_client_that_sends_no_request_is_let_go(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(client_side, "HEAD_DEADLINE_S", 0.2)
    with Client(gateway.url) as client:
        client.send(begun)
        assert client.rest() == b""


def test_a_client_is_not_let_go_while_it_is_answered(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_side, "HEAD_DEADLINE_S", 0.1)
    gateway.publish([route([endpoint(engine(answer=late))])])
    with Client(gateway.url) as client:
        client.send(post(asking()) + b"POST /v1/chat")
        assert client.until(b"\r\n").startswith(b"HTTP/1.1 200")
