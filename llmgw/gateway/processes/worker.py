# SPDX-License-Identifier: Apache-2.0
"""A worker process: it serves clients and nothing else (G12).

It follows the bundle by itself. How endpoints are, and what other workers have in flight, the control process says;
what it counts is in memory that the control process reads. When that process is gone, the worker lets its requests
finish and ends, so that nothing of a gateway outlives it.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from llmgw.errors import LlmgwError
from llmgw.gateway.endpoints.health import State
from llmgw.gateway.processes import elsewhere
from llmgw.gateway.processes.cells import Writer
from llmgw.gateway.processes.channel import (
    Answer,
    Channel,
    Cut,
    Drain,
    Ejected,
    Elsewhere,
    Failed,
    Hello,
    HowItIs,
    Judged,
    Message,
    Place,
    Problem,
    Prompts,
    Question,
    Retire,
    Serving,
)
from llmgw.gateway.processes.data_side import DataSide
from llmgw.gateway.processes.listener import CLIENT_KEEP_ALIVE_S
from llmgw.gateway.processes.process import tune
from llmgw.gateway.processes.questions import answer
from llmgw.gateway.processes.sharing import Sheet
from llmgw.gateway.routing.prefix_news import News
from llmgw.gateway.table import LiveEndpoint

TELL_S = 0.05
"""How often it tells what it counts, and lives."""
UNKNOWN_WHY = "by what requests to it showed"
TOLD_LIMIT_S = 10.0
"""How long it waits to be told how endpoints are, before it serves without."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What the control process starts a worker with: its number, open files by number, how many workers there are."""

    number: int
    bundle: Path
    listeners: tuple[int, ...]
    channel: int
    cells: int
    drain_timeout_s: float
    workers: int


class Worker:
    """One worker. `run` is its whole life."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._data = DataSide(settings.bundle, self._swapped, settings.drain_timeout_s, settings.workers)
        self._table = self._data.table
        self._plane = self._data.plane
        self._sheet = Sheet(self._plane)
        self._cells = Writer(settings.cells)
        self._channel: Channel | None = None
        self._told: dict[Place, HowItIs] = {}
        self._was_told = asyncio.Event()
        self._others_until = 0.0
        self._ejected: dict[Place, str] = {}
        self._problem: str | None = None
        self._retires = asyncio.Event()
        self._ends = asyncio.Event()

    async def run(self) -> None:
        """Serves until it is told to stop, or the control process is gone. Raises LlmgwError when it cannot begin."""
        loop = asyncio.get_running_loop()
        self._plane.wake = self._ask_for_probe
        loop.add_signal_handler(signal.SIGTERM, self._drain)
        for number in (signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, lambda: None)  # they are for the control process
        await self._data.file.look()
        end = socket.socket(fileno=self._settings.channel)
        end.settimeout(0)
        self._channel = await Channel.over(end, self._heard, self._control_is_gone)
        telling = loop.create_task(self._keep_telling())
        self._tell()
        self._say(Hello())
        await self._wait_to_be_told()
        self._check_bundle()
        listeners = [socket.socket(fileno=one) for one in self._settings.listeners]
        for one in listeners:
            one.settimeout(0)
        await self._data.serve(listeners)
        tune()
        self._tell()
        self._say(Serving())
        await _first(self._retires.wait(), self._ends.wait())
        if not self._ends.is_set():
            await _first(self._data.retire(CLIENT_KEEP_ALIVE_S), self._ends.wait())
        await self._data.finish()
        self._ends.set()
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        self._tell()
        self._channel.close()

    # --- what it is told ---

    def _heard(self, message: Message) -> None:
        match message:
            case Judged():
                self._told |= {one.place: one for one in message.endpoints}
                if message.everything:
                    self._told = {one.place: one for one in message.endpoints}
                for endpoint in self._table.endpoints.values():
                    self._take(endpoint)
                self._was_told.set()
            case Elsewhere():
                self._others_until = self._plane.loop.time() + elsewhere.FORGOTTEN_AFTER_S
                elsewhere.put(self._table, message)
            case Prompts():
                self._hear_prompts(message)
            case Question():
                self._say(Answer(message.number, answer(self._plane, message.name, message.argument)))
            case Retire():
                self._retires.set()
            case Drain():
                self._drain()
            case Cut():
                self._cut()
            case _:
                pass  # of a worker, not to one

    def _hear_prompts(self, told: Prompts) -> None:
        for endpoint in self._table.endpoints.values():
            if _place(endpoint) == told.place:
                endpoint.costs.heard(told.news)

    def _take(self, endpoint: LiveEndpoint) -> None:
        """Lets the endpoint be as the control process says."""
        told = self._told.get(_place(endpoint))
        if told is None:
            return
        if told.load != endpoint.load:
            self._table.report(endpoint, told.load, told.until)
        before, health = endpoint.health, told.health
        if health == before:
            return
        if before.gone and health.state is State.READY:
            endpoint.renew()
        endpoint.health = health
        if before.state is not health.state:
            endpoint.route.refresh()

    def _swapped(self) -> None:
        for endpoint in self._table.endpoints.values():
            self._take(endpoint)

    def _control_is_gone(self) -> None:
        if not self._ends.is_set():
            log.error("the control process is gone: requests finish, and the worker ends", worker=self._settings.number)
            self._drain()

    def _drain(self) -> None:
        self._ends.set()

    def _cut(self) -> None:
        self._ends.set()
        self._data.cut()

    # --- what it tells ---

    def _say(self, message: Message) -> None:
        if self._channel is not None:
            self._channel.say(message)

    def _ask_for_probe(self, endpoint: LiveEndpoint) -> None:
        self._say(Failed(_place(endpoint), endpoint.health.detail or "a request failed"))

    async def _keep_telling(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            try:
                self._tell()
            except Exception:  # what one bundle breaks must not make the worker look dead
                log.exception("what the worker counts could not be told")

    def _tell(self) -> None:
        now = time.monotonic()
        values = self._sheet.read()
        self._cells.write(self._sheet.names, values, self._sheet.live, now)
        if self._others_until and self._plane.loop.time() > self._others_until:
            self._others_until = 0.0
            elsewhere.forget(self._table)
        if self._problem != self._data.file.problem:
            self._problem = self._data.file.problem
            self._say(Problem(self._problem))
        ejected: dict[Place, str] = {}
        for endpoint in self._table.endpoints.values():
            self._tell_prompts(endpoint)
            if endpoint.ejected:
                place = _place(endpoint)
                ejected[place] = self._ejected.get(place) or endpoint.detail(self._plane.loop.time()) or UNKNOWN_WHY
        for place in self._ejected.keys() - ejected.keys():
            self._say(Ejected(place, None))
        for place in ejected.keys() - self._ejected.keys():
            self._say(Ejected(place, ejected[place]))
        self._ejected = ejected

    def _tell_prompts(self, endpoint: LiveEndpoint) -> None:
        """Which prompts it has from here: the next turn of a conversation may come to another worker."""
        news = endpoint.costs.news
        if news is None:
            endpoint.costs.news = News()
            return
        told = news.take()
        if told is not None:
            self._say(Prompts(_place(endpoint), told))

    def _check_bundle(self) -> None:
        """Raises LlmgwError `bundle-not-in-force` where there are endpoints and this worker cannot know of them: others
        serve by a good bundle that is not in its file any more, and clients are better off there.
        """
        if self._table.bundle is None and self._told:
            raise LlmgwError(
                "bundle-not-in-force",
                f"the bundle that others serve by cannot be read any more: {self._data.file.problem}",
                fix="publish a bundle by llmgw apply",
            )

    async def _wait_to_be_told(self) -> None:
        try:
            async with asyncio.timeout(TOLD_LIMIT_S):
                await self._was_told.wait()
        except TimeoutError:
            log.warning("the control process says nothing of the endpoints", worker=self._settings.number)


def _place(endpoint: LiveEndpoint) -> Place:
    return endpoint.spec.id, endpoint.spec.address, endpoint.spec.port


async def _first(*waits: Coroutine[Any, Any, Any]) -> None:
    """Until one of them is over; the others are given up."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
