# SPDX-License-Identifier: Apache-2.0
"""Many open streams that have as many events between them as few have: memory a stream, and CPU a chunk."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

from tests.bench.gateway_measure import PER_CHUNK, Row, Run, each_target, say, streaming_engine
from tests.bench.gateway_process import OTHER_CPU, environment

COUNTS = (100, 1_000, 10_000)
EVENTS_PER_S = 5_000
ENDLESS = 1_000_000
SPARE_FILES = 200


def streams(run: Run) -> list[Row]:
    """One row a target and number of streams."""
    most = allow_open_files(2 * max(COUNTS) + SPARE_FILES)
    rows: list[Row] = []
    for wanted in COUNTS[:2] if run.quick else COUNTS:
        count = min(wanted, (most - SPARE_FILES) // 2)
        with streaming_engine(run, ENDLESS, count / EVENTS_PER_S) as engines:
            for name, one in each_target(run, engines):
                idle = one.program.rss_bytes()
                with open_streams(one.port, count, run.seconds) as clients:
                    before = one.program.cpu_s()
                    opened = next_line(clients)
                    cpu_open = one.program.cpu_s()
                    seen = next_line(clients)
                    used = one.program.cpu_s() - cpu_open
                    full = one.program.rss_bytes()
                    clients.kill()
                per = round(used * 1e6 / max(seen["chunks"], 1), 2)
                opening = round((cpu_open - before) * 1e6 / count, 1)
                what = {"mode": "streams", "target": name, "streams": count, **opened, **seen, PER_CHUNK: per}
                memory = {"kb_per_stream": round((full - idle) / 1024 / count, 1), "rss_mb": round(full / 1024 / 1024)}
                rows.append(say(**what, **memory, cpu_us_per_opening=opening))
    return rows


def allow_open_files(wanted: int) -> int:
    """As many open files as wanted for this process and those it starts, or as many as the machine allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    able = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, able), hard))
    return max(soft, able)


def open_streams(port: int, count: int, seconds: float) -> subprocess.Popen[bytes]:
    """The clients: a first line once all streams have had an event, a second after `seconds` more."""
    words = [sys.executable, "-m", "tests.bench.gateway_clients", str(port), str(count), str(seconds)]
    return subprocess.Popen(["taskset", "-c", OTHER_CPU, *words], env=environment(), stdout=subprocess.PIPE)


def next_line(clients: subprocess.Popen[bytes]) -> Row:
    """What the clients say next. Raises RuntimeError when they have failed."""
    assert clients.stdout is not None
    line = clients.stdout.readline()
    if not line:
        raise RuntimeError(f"the clients of the open streams failed with status {clients.wait()}")
    row: Row = json.loads(line)
    return row
