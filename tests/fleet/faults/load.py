# SPDX-License-Identifier: Apache-2.0
"""Constant load through the gateway by the official asynchronous client; what became of every request is kept."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import openai
from openai.types.chat import ChatCompletionMessageParam

from tests.fleet.lab.hosts import Lab

_MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Count, please."}]
_PAUSE_AFTER_FAILURE_S = 0.2
LEAVING_S = 90.0
"""How long clients that are asked to end may take: a request may hang until its own timeout."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """One service's clients: how many, half of them streaming, and the tokens of an answer."""

    service: str
    clients: int
    tokens: int
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """What a client saw of one request. Times by the monotonic clock; `failure` None: a whole answer."""

    service: str
    stream: bool
    began: float
    ended: float
    tokens: int
    failure: str | None = None


class Load:
    """As a context manager: clients that ask again and again from the lab's controller, in a thread of their own."""

    def __init__(self, lab: Lab, url: str, traffic: tuple[Traffic, ...], timeout_s: float) -> None:
        self._lab = lab
        self._url = url
        self._traffic = traffic
        self._timeout_s = timeout_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self.requests: list[Request] = []
        self.open: dict[int, float] = {}
        """Requests that are not answered yet, by number: when each began."""
        self._number = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Lets every client finish its request, and ends."""
        self._stop.set()
        self._thread.join(LEAVING_S)
        if self._thread.is_alive():
            raise AssertionError(f"clients still wait for answers {LEAVING_S:g} s after the end")

    def failures(self, since: float = 0.0) -> list[Request]:
        """The requests that failed and ended after that moment."""
        return [one for one in list(self.requests) if one.failure is not None and one.ended >= since]

    def answered(self, since: float = 0.0) -> int:
        """How many requests that began after that moment have a whole answer."""
        return sum(one.failure is None and one.began >= since for one in list(self.requests))

    def _run(self) -> None:
        with self._lab.network():
            asyncio.run(self._all())

    async def _all(self) -> None:
        async with (
            openai.AsyncOpenAI(base_url=self._url, api_key="unused", max_retries=0, timeout=self._timeout_s) as client,
            asyncio.TaskGroup() as group,
        ):
            for traffic in self._traffic:
                for number in range(traffic.clients):
                    group.create_task(self._client(client, traffic, stream=number % 2 == 0))

    async def _client(self, client: openai.AsyncOpenAI, traffic: Traffic, *, stream: bool) -> None:
        while not self._stop.is_set():
            self._number += 1
            number, began = self._number, time.monotonic()
            self.open[number] = began
            failure, tokens = None, 0
            try:
                tokens = await (_streamed if stream else _whole)(client, traffic)
            except openai.OpenAIError as error:
                failure = f"{type(error).__name__}: {error}"
            except Exception as error:  # noqa: BLE001 - a cut stream shows as an error of the transport below
                failure = f"cut: {type(error).__name__}: {error}"
            del self.open[number]
            if failure is None and tokens < traffic.tokens:
                failure = f"{tokens} tokens of {traffic.tokens}"
            self.requests.append(Request(traffic.service, stream, began, time.monotonic(), tokens, failure))
            await asyncio.sleep(traffic.pause_s if failure is None else _PAUSE_AFTER_FAILURE_S)


async def _streamed(client: openai.AsyncOpenAI, traffic: Traffic) -> int:
    chunks = await client.chat.completions.create(
        model=traffic.service,
        messages=_MESSAGES,
        max_tokens=traffic.tokens,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    tokens, finished = 0, False
    async for chunk in chunks:
        for choice in chunk.choices:
            tokens += bool(choice.delta.content)
            finished = finished or choice.finish_reason is not None
    # What counts is that the end came: an engine may put several tokens into one piece.
    return traffic.tokens if finished else tokens


async def _whole(client: openai.AsyncOpenAI, traffic: Traffic) -> int:
    answer = await client.chat.completions.create(
        model=traffic.service, messages=_MESSAGES, max_tokens=traffic.tokens, extra_body={"ignore_eos": True}
    )
    return traffic.tokens if answer.choices and answer.choices[0].finish_reason is not None else 0
