# SPDX-License-Identifier: Apache-2.0
"""Asks every endpoint the two questions of readiness, again and again, over connections of its own (R7, G3).

One task an endpoint, made and cancelled with it. The connection is kept between probes, so an engine that dies is
noticed as its sockets close, not at the next probe. Many endpoints are probed less often each: the sum stays bounded.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable

import structlog

from llmgw.gateway.endpoints.health import Answered, Probe, Refused, Silent, State
from llmgw.gateway.endpoints.inquiry import Inquiry, UnreachableError
from llmgw.gateway.table import LiveEndpoint, Table

MOST_PROBES_PER_S = 400.0
MOST_AT_ONCE = 256
ANSWER_TIMEOUT_S = 10.0
"""Some engines generate a token for the health question; a busy one takes its time."""
ACCEPT = b"application/json"
MODELS_EVERY = 10
"""The models question is asked until an endpoint is ready, and then at every tenth probe."""
JITTER = 0.2
NOT_GOOD = 300
"""Statuses from here on are not a yes."""

log = structlog.get_logger()


class Prober:
    """The probing tasks. `sync` follows the route table; `wake` probes one endpoint now."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._tasks: dict[LiveEndpoint, asyncio.Task[None]] = {}
        self._wanted: dict[LiveEndpoint, asyncio.Event] = {}
        self._first: set[LiveEndpoint] = set()
        self._all_seen = asyncio.Event()
        self._all_seen.set()
        self._gate = asyncio.Semaphore(MOST_AT_ONCE)

    def sync(self) -> None:
        """Begins with endpoints that are new and ends with those that are gone."""
        current = set(self._table.endpoints.values())
        for endpoint in self._tasks.keys() - current:
            self._tasks.pop(endpoint).cancel()
            self._wanted.pop(endpoint)
            self._note_first(endpoint)
        for endpoint in current - self._tasks.keys():
            self._first.add(endpoint)
            self._all_seen.clear()
            self._wanted[endpoint] = asyncio.Event()
            self._tasks[endpoint] = asyncio.create_task(self._watch(endpoint, self._wanted[endpoint]))

    def wake(self, endpoint: LiveEndpoint) -> None:
        """Probes it now."""
        if endpoint in self._wanted:
            self._wanted[endpoint].set()

    async def first_round(self, timeout_s: float) -> None:
        """Until every endpoint was probed once, or the time is over: so that a restarted gateway knows whom to ask."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_seen.wait()
        except TimeoutError:
            log.info("some endpoints have not answered their first probe", count=len(self._first))

    async def stop(self) -> None:
        """Ends all probing."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    def interval_s(self) -> float:
        """Seconds between two probes of one endpoint."""
        return max(self._table.gateway.probe_interval_s, len(self._tasks) / MOST_PROBES_PER_S)

    async def _watch(self, endpoint: LiveEndpoint, wanted: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        questions = _Questions(endpoint, wanted.set)
        number = 0
        try:
            while True:
                wanted.clear()
                settled = endpoint.health.state is State.READY and questions.connected
                ask_models = not settled or number % MODELS_EVERY == 0
                number += 1
                async with self._gate:
                    probe = await questions.ask(ask_models, self._table.gateway.connect_timeout_s)
                self._judge(endpoint, probe)
                self._note_first(endpoint)
                pause = self.interval_s() * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, no secret
                timer = loop.call_later(pause, wanted.set)
                await wanted.wait()
                timer.cancel()
        finally:
            questions.close()

    def _judge(self, endpoint: LiveEndpoint, probe: Probe) -> None:
        if self._table.judge(endpoint, probe, time.time()):
            health = endpoint.health
            log.info("endpoint state", endpoint=endpoint.spec.id, state=health.state.value, detail=health.detail)

    def _note_first(self, endpoint: LiveEndpoint) -> None:
        self._first.discard(endpoint)
        if not self._first:
            self._all_seen.set()


class _Questions:
    """The probing side of one endpoint."""

    def __init__(self, endpoint: LiveEndpoint, on_gone: Callable[[], None]) -> None:
        self._endpoint = endpoint
        self._inquiry = Inquiry(endpoint, on_gone)

    @property
    def connected(self) -> bool:
        """Whether the engine that answered last is still at the other end."""
        return self._inquiry.connected

    async def ask(self, ask_models: bool, connect_timeout_s: float) -> Probe:
        """One probe. With `ask_models` false, the models listed before are taken to be listed still."""
        began = asyncio.get_running_loop().time()
        spec = self._endpoint.spec
        try:
            status, _body = await self._get(spec.health_path, connect_timeout_s)
            if not ask_models and status < NOT_GOOD:
                return Answered(status, (spec.model,))
            if status >= NOT_GOOD:
                return Answered(status, None)
            models_status, body = await self._get(spec.models_path, connect_timeout_s)
            return Answered(status, _names(body) if models_status < NOT_GOOD else None, models_status)
        except UnreachableError as error:
            return Silent(bytes_flow=True) if self._bytes_since(began) else Refused(str(error))
        except TimeoutError:
            return Silent(bytes_flow=self._bytes_since(began))
        except OSError as error:
            return Refused(_short(error), closed=isinstance(error, ConnectionRefusedError))
        except Exception:  # probing this endpoint must go on
            log.exception("a probe failed in the gateway", endpoint=spec.id)
            return Refused("the gateway failed to probe it; its log says why")

    async def _get(self, path: str, connect_timeout_s: float) -> tuple[int, bytes]:
        return await self._inquiry.get(path, ACCEPT, connect_timeout_s, ANSWER_TIMEOUT_S)

    def _bytes_since(self, moment: float) -> bool:
        return self._endpoint.last_byte > moment

    def close(self) -> None:
        """Closes the kept connection."""
        self._inquiry.close()


def _names(body: bytes) -> tuple[str, ...]:
    """Model names in an answer to /v1/models; none where it is something else."""
    try:
        document = json.loads(body)
        return tuple(str(model["id"]) for model in document["data"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return ()


def _short(error: OSError) -> str:
    """`connection refused` rather than an address that the reader knows."""
    return (error.strerror or str(error)).lower() if error.errno else str(error)
