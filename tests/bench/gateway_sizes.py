# SPDX-License-Identifier: Apache-2.0
"""What bodies of different sizes cost: 4 KB to 20 MB, each read whole by the engine before it answers."""

from __future__ import annotations

from tests.bench.gateway_load import body
from tests.bench.gateway_measure import PER_REQUEST, Row, Run, each_target, measured, say, streaming_engine

KB, MB = 1000, 1000 * 1000
SIZES = ((4 * KB, 32), (64 * KB, 32), (1 * MB, 8), (20 * MB, 2))
"""Bytes of the question, and connections: what is on its way at once stays below llmgw's budget for bodies."""


def sizes(run: Run) -> list[Row]:
    """One row a target and size."""
    rows: list[Row] = []
    with streaming_engine(run, chunks=0) as engines:
        for name, one in each_target(run, engines):
            for text_bytes, connections in SIZES[:: 2 if run.quick else 1]:
                asked = body(text_bytes=text_bytes)
                seen, per = measured(run, one, asked, connections, run.seconds)
                what = {"mode": "sizes", "target": name, "body_bytes": text_bytes, "connections": connections}
                rate = round(seen["rps"] * len(asked) / MB, 1)
                rows.append(say(**what, **seen, mb_per_s=rate, **{PER_REQUEST: per}))
    return rows
