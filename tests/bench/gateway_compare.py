# SPDX-License-Identifier: Apache-2.0
"""llmgw beside its peers: a 2 KB chat request with a small answer, and a stream of 100 events."""

from __future__ import annotations

from tests.bench.gateway_load import body
from tests.bench.gateway_measure import (
    CHUNKS,
    PER_CHUNK,
    PER_REQUEST,
    Row,
    Run,
    each_target,
    measured,
    median,
    say,
    streaming_engine,
    unary_engines,
)
from tests.bench.gateway_targets import SGLANG

UNARY_CONNECTIONS, STREAM_CONNECTIONS = 32, 100
STREAM_MORE_S = 4.0
"""A stream takes over a second, so a run of streams takes longer for as good a figure."""


def compare(run: Run) -> list[Row]:
    """Rows of both modes, each round going through all targets."""
    rows: list[Row] = []
    with unary_engines(run) as engines:
        for number in range(run.rounds):
            for name, one in each_target(run, engines):
                seen, per = measured(run, one, body(), UNARY_CONNECTIONS, run.seconds)
                rows.append(say(mode="unary", target=name, round=number, **seen, **{PER_REQUEST: per}))
    with streaming_engine(run) as engines:
        for number in range(run.rounds):
            for name, one in each_target(run, engines):
                asked, seconds = body(stream=True), run.seconds + STREAM_MORE_S
                seen, per = measured(run, one, asked, STREAM_CONNECTIONS, seconds, units=CHUNKS + 1)
                rows.append(say(mode="stream", target=name, round=number, **seen, **{PER_CHUNK: per}))
    for mode, key in (("unary", PER_REQUEST), ("stream", PER_CHUNK)):
        base = median(rows, key, mode=mode, target=SGLANG)
        if base:
            names = sorted({row["target"] for row in rows if row["mode"] == mode})
            values = {name: median(rows, key, mode=mode, target=name) for name in names}
            say(
                mode=mode,
                ratio_to_sglang_router={name: round(value / base, 3) for name, value in values.items() if value},
            )
    return rows
