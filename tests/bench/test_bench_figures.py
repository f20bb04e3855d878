# SPDX-License-Identifier: Apache-2.0
"""What wrk prints, and what becomes of figures in tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from tests.bench.gateway_load import Load, body, milliseconds, read
from tests.bench.gateway_report import of_goals
from tests.bench.routing_clients import Outcome
from tests.bench.routing_report import BEGIN, END, put_between, report, summed

REPORT = """\
Running 6s test @ http://127.0.0.1:40001/v1/chat/completions
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.53ms    0.61ms  12.40ms   88.10%
    Req/Sec    19.21k     1.02k   21.30k    70.00%
  Latency Distribution
     50%    1.53ms
     75%    1.79ms
     90%  980.00us
     99%    3.88ms
  114902 requests in 6.01s, 41.86MB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 7
Requests/sec:  19117.48
Transfer/sec:      6.96MB
"""


def test_what_wrk_prints_is_read() -> None:
    assert read(REPORT) == Load(114902, 19117.48, 1.53, 3.88, 17)


def test_a_report_of_a_target_that_answered_nothing_has_no_requests() -> None:
    assert read("  0 requests in 6.01s, 0B read\nRequests/sec:      0.00\n") == Load(0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "expected"), [("873.00us", 0.873), ("1.20ms", 1.2), ("2.01s", 2010), ("1.10m", 66000)]
)
def test_durations_are_milliseconds(text: str, expected: float) -> None:
    assert milliseconds(text) == expected


@pytest.mark.parametrize("text", ["1.20", "ms", "-1ms", "1.2.3x"])
def test_what_is_no_duration_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="wrk wrote a duration"):
        milliseconds(text)


def test_a_question_has_the_size_that_was_asked_for() -> None:
    assert len(body(text_bytes=64_000)) - len(body(text_bytes=0)) == 64_000


def rows(target: str, cpu: float, rps: float, p99: float, chunk: float) -> list[dict[str, Any]]:
    return [
        {"mode": "unary", "target": target, "rps": rps, "p99_ms": p99, "bad": 0, "cpu_us_per_request": cpu},
        {"mode": "stream", "target": target, "bad": 0, "cpu_us_per_chunk": chunk},
    ]


def test_a_goal_is_met_at_its_bound_and_missed_beyond_it() -> None:
    base = rows("sglang-router", 100, 1000, 10, 20)
    at_bound = of_goals([*rows("llmgw", 75, 1300, 10, 20), *base])
    beyond = of_goals([*rows("llmgw", 76, 1299, 10.1, 20.1), *base])
    assert [line.split("|")[-2].strip() for line in at_bound[2:]] == ["met"] * 5
    assert [line.split("|")[-2].strip() for line in beyond[2:]] == ["NOT met"] * 4 + ["met"]


def test_without_the_peer_no_goal_is_judged() -> None:
    assert [line.split("|")[-2].strip() for line in of_goals(rows("llmgw", 75, 1300, 10, 20))[2:]] == ["-"] * 4 + [
        "met"
    ]


def outcome(ttft_s: float | None, *, status: int = 200, complete: bool = True) -> dict[str, Any]:
    return asdict(Outcome(0, status, ttft_s, 2.0, complete, 100, 60, 10, "h100-80g/0", 0.01, 0.0))


def test_who_refuses_or_cuts_questions_does_not_look_fast() -> None:
    row = summed(
        "x", [outcome(0.1)] * 97 + [outcome(None, status=429, complete=False)] * 2 + [outcome(0.1, complete=False)], 10
    )
    assert (row["ttft_p50_ms"], row["ttft_p99_ms"]) == (100.0, None)
    assert (row["rejects"], row["failed"], row["good_share"], row["goodput_rps"]) == (2, 1, 0.97, 9.7)
    assert row["cache_hit_rate"] == 0.6


def test_a_busy_machine_is_told_under_the_table() -> None:
    assert "never" in report([summed("x", [outcome(None, complete=False)], 10)])[2]
    quiet, busy = [summed("x", [outcome(ttft_s)], 10) for ttft_s in (0.055, 0.065)]
    assert len(report([quiet])) == 3
    assert "too busy" in report([busy])[-1]


def test_a_page_keeps_what_is_outside_its_marks() -> None:
    page = f"# Title\n\n{BEGIN}\nold\n{END}\n\nmore\n"
    assert put_between(page, ["| new |"]) == f"# Title\n\n{BEGIN}\n\n| new |\n\n{END}\n\nmore\n"
    with pytest.raises(ValueError, match="routing bench"):
        put_between("# Title\n", [])
