# SPDX-License-Identifier: Apache-2.0
"""What an engine says of its own load, read from its metrics page: a few lines of many (G4, domain.md K). Pure.

The page is searched for the names that are wanted, and nothing else of it is looked at: a page of 100 KB costs
0.1 ms. Whatever is not a plain number in its bounds counts as not reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_SERIES = 256
"""Lines of one name, one a model or rank; a page with more is no engine's."""
MOST_REQUESTS = 1_000_000.0
ROUNDING = 1.001
"""Shares may come out a little above 1."""

_NAME_ENDS = frozenset({b"{", b" ", b"\t"})
_LINE = re.compile(rb'(?:\{(?:[^"}\n]|"(?:[^"\\\n]|\\[^\n])*")*\})?[ \t]+([0-9.eE+-]{1,32})(?=[ \t\r\n]|\Z)')


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What an engine reported of itself. None: it did not report that, which is not zero (G4).

    `at`: loop time at which the page came. `running`, `waiting`: requests, over all models and ranks. `kv_usage`: share
    of the KV cache in use, 0 to 1, of the fullest rank. `work`: a number that only changes while the engine computes;
    its size means nothing.
    """

    at: float
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    work: float | None = None


@dataclass(frozen=True, slots=True)
class LoadNames:
    """The engine's names; `work` are counters and gauges that stand still when it does not compute."""

    running: bytes
    waiting: bytes
    kv_usage: bytes | None = None
    work: tuple[bytes, ...] = ()
    only_with_requests: bool = False
    """Whether asking may wake a sleeping model or keep it awake: such an engine is asked only while it has requests of
    this gateway, and so cannot sleep. Builds of llama.cpp differ in that, and none says which it is."""


_VLLM = LoadNames(
    b"vllm:num_requests_running",
    b"vllm:num_requests_waiting",
    b"vllm:kv_cache_usage_perc",
    (b"vllm:prompt_tokens_total", b"vllm:generation_tokens_total", b"vllm:iteration_tokens_total_count"),
)

NAMES: dict[str, LoadNames] = {
    "vllm": _VLLM,
    "sim": _VLLM,
    "sglang": LoadNames(
        b"sglang:num_running_reqs",
        b"sglang:num_queue_reqs",
        b"sglang:token_usage",
        (b"sglang:realtime_tokens_total", b"sglang:num_used_tokens"),
    ),
    "llama.cpp": LoadNames(
        b"llamacpp:requests_processing",
        b"llamacpp:requests_deferred",
        work=(b"llamacpp:n_decode_total",),
        only_with_requests=True,
    ),
}
"""By engine kind; an engine that is not here is not asked."""


def read_load(names: LoadNames, page: bytes, at: float) -> EngineLoad | None:
    """The load in an engine's metrics page, or None where nothing in it is one."""
    running = _requests(page, names.running)
    waiting = _requests(page, names.waiting)
    kv_usage = None
    if names.kv_usage is not None and (shares := _values(page, names.kv_usage)):
        fullest = max(shares)
        kv_usage = min(fullest, 1.0) if fullest <= ROUNDING else None
    if running is None and waiting is None and kv_usage is None:
        return None
    return EngineLoad(at, running, waiting, kv_usage, _work(page, names.work))


def moved(before: EngineLoad, after: EngineLoad) -> bool:
    """Whether the engine computed something between two reports. `waiting` grows by itself, so it is no sign."""
    return (before.running, before.kv_usage, before.work) != (after.running, after.kv_usage, after.work)


def _requests(page: bytes, name: bytes) -> float | None:
    values = _values(page, name)
    total = sum(values) if values else None
    return total if total is not None and total <= MOST_REQUESTS else None


def _work(page: bytes, names: tuple[bytes, ...]) -> float | None:
    found = [sum(values) for values in (_values(page, name) for name in names) if values]
    return sum(found) if found else None


def _values(page: bytes, name: bytes) -> list[float]:
    """The values of all series of `name`; empty where there are none, or one is not a number from 0 on."""
    values: list[float] = []
    size = len(name)
    place = 0 if page.startswith(name) else page.find(b"\n" + name) + 1
    while page.startswith(name, place):
        after = place + size
        if page[after : after + 1] in _NAME_ENDS:
            line = _LINE.match(page, after)
            value = None if line is None else _number(line[1])
            if value is None or len(values) == MOST_SERIES:
                return []
            values.append(value)
        place = page.find(b"\n" + name, after) + 1
        if not place:
            break
    return values


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.0 <= value < float("inf") else None
