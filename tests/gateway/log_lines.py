# SPDX-License-Identifier: Apache-2.0
"""Records for an access log, and what is in its file afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llmgw.gateway.records.access_log import AccessLog
from llmgw.gateway.records.record import RequestRecord

PATIENCE_S = 20.0


def record(request_id: str = "r", **fields: Any) -> RequestRecord:
    return RequestRecord(request_id, 1_800_000_000.25, "POST", "/v1/completions", **fields)


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def ids_of(path: Path) -> list[str]:
    return [line["request_id"] for line in lines_of(path)]


def write_and_wait(log: AccessLog, request_id: str) -> None:
    before = log.written + log.dropped
    log.write(record(request_id))
    wait_until(lambda: log.written + log.dropped > before)


def write_until_written(log: AccessLog, request_id: str) -> None:
    def tried() -> bool:
        before = log.written
        write_and_wait(log, request_id)
        return log.written > before

    wait_until(tried)
