# SPDX-License-Identifier: Apache-2.0
"""What is counted and kept of a request that is over, from what its exchange knows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from llmgw.gateway.counters import ServiceCounters, count
from llmgw.gateway.records.record import End, RequestRecord
from llmgw.gateway.wire.paths import PATHS
from llmgw.gateway.wire.request_id import trace_id

if TYPE_CHECKING:
    from llmgw.gateway.admit.usage import Usage
    from llmgw.gateway.exchange import Exchange

PATH_TEXTS = {kind.line: path.decode() for path, kind in PATHS.items()}
CLIENT_LEFT = 499
"""Status that the metrics give to a request whose client left before there was one (nginx's)."""


def account(exchange: Exchange, counters: ServiceCounters, now: float, *, left: bool) -> None:
    """Counts it for its service. `now`: loop time of its end; `left`: its client left."""
    count(counters.requests, exchange.status or CLIENT_LEFT)
    counters.aborts += left
    counters.duration.add(now - exchange.started_at)
    if exchange.asked is not None and exchange.asked.stream and exchange.first_byte_at is not None:
        counters.first_byte.add(exchange.first_byte_at - exchange.started_at)


def record_of(exchange: Exchange, now: float, *, left: bool, cut: bool, usage: Usage | None) -> RequestRecord:
    """What is kept of it. `now`: loop time of its end; `left`: its client left; `cut`: its answer broke off."""
    tail = exchange.tail
    end: End = "client_left" if left else "cut" if cut else "complete" if tail is not None else "refused"
    route, entry, asked = exchange.route, exchange.entry, exchange.asked
    key, answered_by = exchange.key, exchange.answered_by
    started_at, first_at, parent = exchange.started_at, exchange.first_byte_at, exchange.head.traceparent
    duration_s = now - started_at
    return RequestRecord(
        exchange.request_id,
        time.time() - duration_s,
        "POST",  # no other method gets so far
        PATH_TEXTS[exchange.kind.line],
        None if route is None else route.spec.service,
        None if asked is None else asked.model,
        None if key is None else key.spec.name,
        None if answered_by is None else answered_by.spec.id,
        exchange.status,
        exchange.reason,
        None if asked is None else asked.stream,
        exchange.attempts or None,
        None if entry is None else entry.queue_s(now),
        None if first_at is None else first_at - started_at,
        duration_s,
        exchange.bytes_in,
        None if tail is None else tail.size,
        None if usage is None else usage.prompt,
        None if usage is None else usage.completion,
        end,
        None if parent is None else trace_id(parent),
    )
