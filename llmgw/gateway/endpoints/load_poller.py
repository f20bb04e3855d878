# SPDX-License-Identifier: Apache-2.0
"""Asks every ready engine for its own view of its load, again and again, over connections of its own (G4).

One task an endpoint, made and cancelled with it. What is not answered in time, not readable or too large says nothing:
the last report runs out after two intervals, and then nothing is known, which is not the same as no load. Many
endpoints are asked less often each: the sum stays bounded.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import structlog

from llmgw.gateway.endpoints.engine_load import NAMES, EngineLoad, LoadNames, read_load
from llmgw.gateway.endpoints.inquiry import Inquiry
from llmgw.gateway.table import LiveEndpoint, Table

POLL_S = 1.0
MOST_POLLS_PER_S = 200.0
MOST_AT_ONCE = 64
IN_FORCE = 2.0
"""Intervals after which a report is too old."""
ACCEPT = b"text/plain"
GOOD = 200
MISSES = 5
"""After so many polls in a row without a report, an engine that has none is asked seldom."""
SELDOM = 20.0
"""In intervals."""

Report = Callable[[LiveEndpoint, EngineLoad, float], None]
"""Takes an endpoint, its load, and the loop time until which that is in force."""

log = structlog.get_logger()


def has_requests(endpoint: LiveEndpoint) -> bool:
    """Whether requests of this process are in flight at it."""
    return endpoint.in_flight > 0


class LoadPoller:
    """The polling tasks. `sync` follows the route table.

    `report` takes what was read, by default the table's. `busy`: whether requests of this gateway are at the endpoint,
    in whichever of its processes; engines that asking would wake are asked only then.
    """

    def __init__(
        self, table: Table, report: Report | None = None, busy: Callable[[LiveEndpoint], bool] = has_requests
    ) -> None:
        self._table = table
        self._report: Report = report or table.report
        self._busy = busy
        self._tasks: dict[LiveEndpoint, asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(MOST_AT_ONCE)

    def sync(self) -> None:
        """Begins with endpoints that are new and ends with those that are gone."""
        current = {endpoint for endpoint in self._table.endpoints.values() if endpoint.spec.engine in NAMES}
        for endpoint in self._tasks.keys() - current:
            self._tasks.pop(endpoint).cancel()
        for endpoint in current - self._tasks.keys():
            self._tasks[endpoint] = asyncio.create_task(self._watch(endpoint, NAMES[endpoint.spec.engine]))

    async def stop(self) -> None:
        """Ends all polling."""
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    def interval_s(self) -> float:
        """Seconds between two polls of one endpoint."""
        return max(POLL_S, len(self._tasks) / MOST_POLLS_PER_S)

    async def _watch(self, endpoint: LiveEndpoint, names: LoadNames) -> None:
        loop = asyncio.get_running_loop()
        inquiry = Inquiry(endpoint)
        misses = 0
        try:
            await asyncio.sleep(self.interval_s() * random.random())  # noqa: S311 - spreads load, no secret
            while True:
                interval = self.interval_s()
                next_at = loop.time() + (interval if misses < MISSES else interval * SELDOM)
                if not endpoint.up:
                    misses = 0
                elif not names.only_with_requests or self._busy(endpoint):
                    async with self._gate:
                        load = await self._poll(endpoint, inquiry, names, interval * IN_FORCE)
                    misses = misses + 1 if load is None else 0
                    if load is not None and endpoint.up:
                        self._report(endpoint, load, load.at + interval * IN_FORCE)
                await asyncio.sleep(max(next_at - loop.time(), 0.0))
        finally:
            inquiry.close()

    async def _poll(
        self, endpoint: LiveEndpoint, inquiry: Inquiry, names: LoadNames, timeout_s: float
    ) -> EngineLoad | None:
        try:
            status, page = await inquiry.get(
                endpoint.spec.metrics_path, ACCEPT, self._table.gateway.connect_timeout_s, timeout_s
            )
        except OSError:
            return None  # whether it is up is the prober's to find
        except Exception:  # polling this endpoint must go on
            log.exception("a poll of an engine's load failed in the gateway", endpoint=endpoint.spec.id)
            return None
        return read_load(names, page, asyncio.get_running_loop().time()) if status == GOOD else None
