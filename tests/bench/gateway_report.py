# SPDX-License-Identifier: Apache-2.0
"""The table at the end of `make bench-gateway`: every figure beside sglang-router's, and the goals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.bench.gateway_features import ALL_ON
from tests.bench.gateway_measure import PER_CHUNK, PER_REQUEST, Row, median
from tests.bench.gateway_targets import LLMGW, SGLANG

GOALS: tuple[tuple[str, str, str, Callable[[float], bool], str], ...] = (
    ("CPU per unary request", "unary", PER_REQUEST, lambda ratio: ratio <= 0.75, "at most 0.75 x"),
    ("requests/s", "unary", "rps", lambda ratio: ratio >= 1.3, "at least 1.3 x"),
    ("p99 at 32 connections", "unary", "p99_ms", lambda ratio: ratio <= 1.0, "at most 1.0 x"),
    ("CPU per streamed chunk", "stream", PER_CHUNK, lambda ratio: ratio <= 1.0, "at most 1.0 x"),
)
UNITS = {PER_REQUEST: "µs", PER_CHUNK: "µs", "rps": "/s", "p99_ms": "ms"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a markdown table."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def report(rows: Sequence[Row]) -> list[str]:
    """All tables that the rows suffice for, and last whether the goals are met."""
    parts = [by_number(rows, *what) for what in BY_NUMBER] + [of_features(rows), of_workers(rows), of_goals(rows)]
    return [line for part in parts if part for line in ("", *part)]


BY_NUMBER = (
    ("sizes", "body_bytes", PER_REQUEST, "CPU µs per request, by bytes of the body"),
    ("endpoints", "endpoints", PER_REQUEST, "CPU µs per request, by number of endpoints"),
    ("streams", "streams", PER_CHUNK, "CPU µs per chunk, by open streams"),
    ("streams", "streams", "kb_per_stream", "KB of memory per stream, by open streams"),
)


def by_number(rows: Sequence[Row], mode: str, number: str, key: str, title: str) -> list[str]:
    """A line a target, a column a number."""
    chosen = [row for row in rows if row["mode"] == mode]
    numbers = sorted({row[number] for row in chosen})
    targets = list(dict.fromkeys(row["target"] for row in chosen))
    lines = []
    for target in targets:
        values = [median(chosen, key, target=target, **{number: one}) for one in numbers]
        lines.append([target, *("-" if value is None else f"{value:g}" for value in values)])
    return table([title, *(f"{one:,}" for one in numbers)], lines) if lines else []


def of_features(rows: Sequence[Row]) -> list[str]:
    """What a request costs less without each feature."""
    chosen = [row for row in rows if row["mode"] == "features"]
    on = median(chosen, PER_REQUEST, target=ALL_ON)
    lines = []
    for target in dict.fromkeys(row["target"] for row in chosen):
        per, rps = median(chosen, PER_REQUEST, target=target), median(chosen, "rps", target=target)
        if per is not None and rps is not None and on is not None:
            lines.append([target, f"{per:.1f}", f"{per - on:+.1f}", f"{rps:,.0f}"])
    return table(["llmgw, 8 endpoints", "CPU µs per request", "against all on", "requests/s"], lines) if lines else []


def of_workers(rows: Sequence[Row]) -> list[str]:
    """One worker and two."""
    lines = [
        [str(row["workers"]), f"{row['rps']:,.0f}", f"{row[PER_REQUEST]:g}", f"{row['rps_by_cpu']:,}"]
        for row in rows
        if row["mode"] == "workers"
    ]
    head = ["workers", "requests/s", "CPU µs per request", "requests/s that this CPU time allows"]
    return table(head, lines) if lines else []


def of_goals(rows: Sequence[Row]) -> list[str]:
    """Each target's median and its ratio to sglang-router, goal by goal."""
    compared = [row for row in rows if row["mode"] in ("unary", "stream")]
    targets = list(dict.fromkeys(row["target"] for row in compared))
    lines = []
    for title, mode, key, met, goal in GOALS:
        base = median(compared, key, mode=mode, target=SGLANG)
        cells, verdict = [], "-"
        for target in targets:
            value = median(compared, key, mode=mode, target=target)
            ratio = value / base if value is not None and base else None
            cells.append("-" if value is None else f"{value:g}" if ratio is None else f"{value:g} ({ratio:.2f} x)")
            if target == LLMGW and ratio is not None:
                verdict = "met" if met(ratio) else "NOT met"
        lines.append([f"{title}, {UNITS[key]}", *cells, goal, verdict])
    bad = {target: sum(row["bad"] for row in compared if row["target"] == target) for target in targets}
    lines.append(
        ["answers that failed", *(str(bad[target]) for target in targets), "0", "" if any(bad.values()) else "met"]
    )
    return table(["", *targets, "goal for llmgw", ""], lines) if compared else []
