# SPDX-License-Identifier: Apache-2.0
"""Whatever clients and engines do to one another, in whatever order, nothing stays in flight (G6)."""

from __future__ import annotations

import hashlib
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from llmgw.model.replica import ApiKeySpec, GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Request, Wire, chunk, event, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route

SECRET = "s"
ENGINE_WAYS = ("whole", "stream", "close", "reset", "garbage", "cut", "silent", "slow", "error", "big")
CLIENT_WAYS = (
    "read",
    "leave",
    "reset",
    "half a body",
    "wrong",
    "too large",
    "leave in the answer",
    "two at once",
    "unknown",
)


def engine_way(chance: random.Random, wire: Wire) -> None:
    way = chance.choice(ENGINE_WAYS)
    if way == "whole":
        wire.send(whole(b"{}"))
    elif way == "big":
        wire.send(whole(b"x" * 2_000_000))
    elif way == "stream":
        wire.send(CHUNKED + chunk(event("a")))
        time.sleep(chance.random() * 0.01)
        wire.send(chunk(event("b")) + LAST_CHUNK)
    elif way == "close":
        wire.close()
    elif way == "reset":
        wire.reset()
    elif way == "garbage":
        wire.send(b"\x00\x01garbage\r\n\r\n")
        wire.close()
    elif way == "cut":
        wire.send(CHUNKED + chunk(event("a"))[:-5])
        wire.close()
    elif way == "silent":
        wire.client_left(within_s=2)
        wire.close()
    elif way == "slow":
        time.sleep(0.05)
        wire.send(whole(b"{}", "503 Busy"))
    else:
        wire.send(whole(b"no", "500 Oops"))


def client_way(chance: random.Random, url: str) -> None:
    way = chance.choice(CLIENT_WAYS)
    auth = f"authorization: Bearer {SECRET}\r\n"
    body = asking(
        chance.choice(["m", "alias"]), stream=chance.random() < 0.5, user="x" * chance.choice([0, 1000, 200_000])
    )
    with Client(url) as client:
        if way == "half a body":
            client.send(post(body, headers=auth)[: len(body) // 2])
            time.sleep(chance.random() * 0.02)
            return
        if way == "wrong":
            client.send(post(b"{" + body, headers=auth))
        elif way == "too large":
            client.send(post(b" " * 600_000, headers=auth))
        elif way == "unknown":
            client.send(post(asking("nobody"), headers=auth))
        else:
            client.send(post(body, headers=auth) * (2 if way == "two at once" else 1))
        if way in {"leave", "reset"}:
            time.sleep(chance.random() * 0.02)
            if way == "reset":
                client.reset()
            return
        client.socket.settimeout(6)
        if way == "leave in the answer":
            client.socket.recv(100)
            return
        if chance.random() < 0.1:
            client.socket.shutdown(socket.SHUT_WR)
        client.socket.recv(100_000)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_leaks(gateway: RunningGateway, engine: MakeEngine, seed: int) -> None:
    chance = random.Random(seed)

    def answer(_request: Request, wire: Wire) -> None:
        engine_way(chance, wire)

    spec = GatewaySpec(
        probe_interval_s=0.05,
        first_byte_timeout_s=0.5,
        idle_timeout_s=0.5,
        max_body_bytes=500_000,
        keys=(ApiKeySpec("a", hashlib.sha256(SECRET.encode()).hexdigest(), max_concurrency=6),),
    )
    engines = [engine(answer=answer) for _number in range(3)]
    endpoints = [endpoint(one, number) for number, one in enumerate(engines)]

    def ask(number: int) -> None:
        client_way(random.Random(seed * 1000 + number), gateway.url)

    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(ask, number) for number in range(150)]
        for _swap in range(10):
            kept = [one for one in endpoints if chance.random() < 0.7]
            gateway.publish([route(kept, aliases=("alias",), max_concurrency=7)], gateway=spec, ready=False)
            time.sleep(0.05)
        gateway.publish([route(endpoints, aliases=("alias",))], gateway=spec, ready=False)
        for future in asked:
            future.result(20)
    gateway.assert_nothing_held()
    for one in engines:
        one.answer = lambda _request, wire: wire.send(whole(b"fine"))

    def all_back() -> bool:
        """One that was ejected comes back by answering the request that it gets as a trial."""
        answer = fetch(gateway.url + CHAT, "POST", asking("alias"), {"authorization": f"Bearer {SECRET}"})
        return answer[2] == b"fine" and set(gateway.states().values()) == {"ready"}

    eventually(all_back, "all are ready again", within_s=40)
