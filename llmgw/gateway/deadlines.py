# SPDX-License-Identifier: Apache-2.0
"""One clock for all requests and connections: a sweep finds the deadlines that passed.

A timer per request would cost more than the request's own accounting; a quarter of a second more on a timeout costs
nobody.
"""

from __future__ import annotations

import asyncio

import structlog

from llmgw.gateway.admit import entrance
from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.wire.client import ClientConnection
from llmgw.gateway.wire.upstream import IDLE_LIMIT_S

SWEEP_S = 0.25

log = structlog.get_logger()


async def keep_deadlines(plane: DataPlane, sweep_s: float = SWEEP_S) -> None:
    """Sweeps until cancelled."""
    while True:
        await asyncio.sleep(sweep_s)
        sweep(plane, plane.loop.time())


def sweep(plane: DataPlane, now: float) -> None:
    """Ends what is overdue at loop time `now`."""
    pending: list[Exchange | ClientConnection] = [*plane.exchanges, *plane.clients]
    for waiting in pending:
        if waiting.deadline < now:
            try:
                waiting.expire()
            except Exception:  # one request's bug must not stop the clock of the others
                log.exception("a request's deadline could not be kept")
    for route in tuple(plane.table.routes.values()):
        entrance.sweep(route, now)
    for endpoint in plane.table.sweep(now):
        word = "endpoint ejected" if endpoint.ejected else "endpoint back in rotation"
        log.warning(word, endpoint=endpoint.spec.id, detail=endpoint.detail(now))
    for endpoint in plane.table.everywhere():
        endpoint.pool.expire(now - IDLE_LIMIT_S)
