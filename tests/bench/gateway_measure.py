# SPDX-License-Identifier: Apache-2.0
"""One measurement of a running gateway: rate, latencies, CPU a unit of work, memory; as one line of JSON."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench import gateway_nginx
from tests.bench.gateway_load import drive
from tests.bench.gateway_process import OTHER_CPU, free_port, free_ports, running
from tests.bench.gateway_targets import NotReadyError, Running, Target, started

Row = dict[str, Any]
CHUNKS, GAP_S = 100, 0.01
PER_REQUEST, PER_CHUNK = "cpu_us_per_request", "cpu_us_per_chunk"
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Run:
    """How the benchmark was started."""

    folder: Path
    targets: Sequence[Target]
    seconds: float
    rounds: int
    quick: bool

    @property
    def warm_up_s(self) -> float:
        """Load before a measurement: connections are made, and what is learned is learned."""
        return 1.0 if self.quick else 2.0


def say(**row: Any) -> Row:
    """One line of the result, which is also returned."""
    print(json.dumps(row), flush=True)  # noqa: T201 - its result
    return row


@contextmanager
def unary_engines(run: Run, count: int = 1) -> Iterator[list[int]]:
    """Ports of engines that answer at once (one nginx)."""
    ports = free_ports(count)
    folder = run.folder / "unary-engines"
    folder.mkdir(exist_ok=True)
    with (folder / "log").open("ab") as log, running(OTHER_CPU, gateway_nginx.engine(folder, ports), log):
        yield ports


@contextmanager
def streaming_engine(run: Run, chunks: int = CHUNKS, gap_s: float = GAP_S) -> Iterator[list[int]]:
    """Port of an engine that streams `chunks` events, one every `gap_s`, or answers at once with 0 chunks."""
    port = free_port()
    words = [sys.executable, "-m", "tests.bench.gateway_engine", str(port), str(chunks), str(gap_s)]
    with (run.folder / "streaming-engine.log").open("ab") as log, running(OTHER_CPU, words, log):
        yield [port]


def measured(
    run: Run, one: Running, asked: bytes, connections: int, seconds: float, *, units: int = 1, **how: Any
) -> tuple[Row, float]:
    """What wrk saw, and CPU microseconds of the gateway for each of the `units` of a request."""
    drive(run.folder, one.port, asked, connections, run.warm_up_s, **how)
    before = one.program.cpu_s()
    load = drive(run.folder, one.port, asked, connections, seconds, **how)
    used = one.program.cpu_s() - before
    row = asdict(load) | {"rss_mb": round(one.program.rss_bytes() / MIB)}
    return row, round(used * 1e6 / max(load.requests * units, 1), 2)


def each_target(
    run: Run, engines: Sequence[int], targets: Iterable[Target] | None = None
) -> Iterator[tuple[str, Running]]:
    """Every target in turn, alone, in front of `engines`; one that does not answer is said and left out."""
    for target in run.targets if targets is None else targets:
        try:
            with started(target, run.folder, engines) as one:
                yield target.name, one
        except NotReadyError as error:
            say(target=target.name, error=str(error))


def median(rows: Iterable[Row], key: str, **chosen: Any) -> float | None:
    """Median of `key` over the rows that have it and the `chosen` values; None where there is none."""
    values = [row[key] for row in rows if key in row and all(row.get(name) == chosen[name] for name in chosen)]
    return statistics.median(values) if values else None
