# SPDX-License-Identifier: Apache-2.0
"""SIGTERM, in vLLM's two ways."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.unit.engines_programs.programs import Program, events, until

ENDLESS = {"prompt": "hello", "max_tokens": 8000, "ignore_eos": True}


def test_without_a_shutdown_timeout_open_streams_get_an_error_event_and_done(sim: Program) -> None:
    with sim.stream("/v1/completions", ENDLESS) as response:
        assert response.readline().startswith(b"data: ")
        sim.terminate()
        got = events(response)
    assert response.status == 200
    assert got[-1] == "[DONE]"
    assert got[-2]["error"]["code"] == 500
    assert got[-2]["error"]["type"] == "InternalServerError"
    assert sim.exit_status() == 0


def test_without_a_shutdown_timeout_a_plain_request_gets_500(sim: Program) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(sim.ask, "POST", "/v1/completions", ENDLESS)
        until("it runs", lambda: sim.state()["running"] == 1)
        sim.terminate()
        status, body = answer.result()
    assert status == 500
    assert body["error"]["code"] == 500
    assert sim.exit_status() == 0


def test_a_shutdown_timeout_lets_streams_finish_and_refuses_new_requests(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--shutdown-timeout", "20", "--itl-ms", "5").ready()
    with sim.stream("/v1/completions", {**ENDLESS, "max_tokens": 400}) as response:
        assert response.readline().startswith(b"data: ")
        sim.terminate()
        until("it drains", lambda: sim.state()["draining"])
        assert sim.ask("GET", "/health") == (200, "")
        status, refusal = sim.ask("POST", "/v1/completions", {"prompt": "new"})
        assert status == 500
        assert "shutting down" in refusal["error"]["message"]
        got = events(response)
    assert got[-1] == "[DONE]"
    assert got[-2]["choices"][0]["finish_reason"] == "length"
    assert sim.exit_status() == 0


def test_what_outlasts_the_shutdown_timeout_is_aborted(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--shutdown-timeout", "0.3").ready()
    with sim.stream("/v1/completions", ENDLESS) as response:
        assert response.readline().startswith(b"data: ")
        begun = time.monotonic()
        sim.terminate()
        got = events(response)
        assert sim.exit_status() == 0
    assert 0.3 <= time.monotonic() - begun < 15
    assert "error" in got[-2]


def test_an_idle_connection_keeps_nobody_from_leaving(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--shutdown-timeout", "20").ready()
    connection = sim.connect()
    connection.request("GET", "/health")
    assert connection.getresponse().read() == b""
    begun = time.monotonic()
    sim.terminate()
    assert sim.exit_status() == 0
    assert time.monotonic() - begun < 15
    connection.close()
