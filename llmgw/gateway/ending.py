# SPDX-License-Identifier: Apache-2.0
"""What is counted and kept of a request that is over, from what its exchange knows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from llmgw.gateway.counters import ServiceCounters, count
from llmgw.gateway.record import End, RequestRecord
from llmgw.gateway.request_id import trace_id

if TYPE_CHECKING:
    from llmgw.gateway.exchange import Exchange
    from llmgw.gateway.usage import Usage

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
    end: End = "client_left" if left else "cut" if cut else "complete"
    if end == "complete" and exchange.tail is None:
        end = "refused"
    entry, asked, tail = exchange.entry, exchange.asked, exchange.tail
    answered_by = exchange.answered_by
    duration_s = now - exchange.started_at
    first_at = exchange.first_byte_at
    method, _, path = exchange.kind.line.decode().partition(" ")
    return RequestRecord(
        request_id=exchange.request_id,
        at=time.time() - duration_s,
        method=method,
        path=path,
        service=None if entry is None else entry.route.spec.service,
        model=None if asked is None else asked.model,
        key=None if exchange.key is None else exchange.key.name,
        endpoint=None if answered_by is None else answered_by.spec.id,
        status=exchange.status,
        reason=exchange.reason,
        stream=None if asked is None else asked.stream,
        attempts=exchange.attempts or None,
        queue_s=None if entry is None else entry.waited_s,
        first_byte_s=None if first_at is None else first_at - exchange.started_at,
        duration_s=duration_s,
        bytes_in=exchange.bytes_in,
        bytes_out=None if tail is None else tail.size,
        prompt_tokens=None if usage is None else usage.prompt,
        completion_tokens=None if usage is None else usage.completion,
        end=end,
        trace_id=trace_id(exchange.head.traceparent),
    )
