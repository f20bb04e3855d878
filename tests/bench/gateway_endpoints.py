# SPDX-License-Identifier: Apache-2.0
"""What the number of endpoints costs: 1 to 200 behind one service, all answering at once."""

from __future__ import annotations

from tests.bench.gateway_compare import UNARY_CONNECTIONS
from tests.bench.gateway_load import body
from tests.bench.gateway_measure import PER_REQUEST, Row, Run, each_target, measured, say, unary_engines

COUNTS = (1, 10, 50, 200)


def endpoints(run: Run) -> list[Row]:
    """One row a target and number of endpoints."""
    rows: list[Row] = []
    for count in COUNTS[::3] if run.quick else COUNTS:
        with unary_engines(run, count) as engines:
            for name, one in each_target(run, engines):
                seen, per = measured(run, one, body(), UNARY_CONNECTIONS, run.seconds)
                rows.append(say(mode="endpoints", target=name, endpoints=count, **seen, **{PER_REQUEST: per}))
    return rows
