# SPDX-License-Identifier: Apache-2.0
"""Faults on demand, and what the simulator remembers of its callers."""

from __future__ import annotations

import hashlib
import http.client
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.engines_programs.programs import SIM, Program, events, until

PROMPT = {"prompt": "hello", "max_tokens": 8}


def fault(sim: Program, **faults: Any) -> None:
    status, body = sim.ask("POST", "/sim/faults", faults)
    assert status == 200, body


def test_without_the_option_there_is_no_way_to_break_it(start: Callable[..., Program]) -> None:
    sim = start(SIM, "--model", "m").ready()
    assert sim.ask("POST", "/sim/faults", {"die": True})[0] == 404
    assert sim.ask("GET", "/sim/state")[0] == 404


def test_hanging_stops_tokens_but_not_health_and_can_be_undone(sim: Program) -> None:
    fault(sim, hang=True)
    with sim.stream("/v1/completions", PROMPT) as response:
        until("it runs", lambda: sim.state()["running"] == 1)
        assert sim.ask("GET", "/health") == (200, "")
        assert sim.state()["generated_tokens"] == 0
        fault(sim)
        assert events(response)[-1] == "[DONE]"


def test_a_request_that_hangs_can_be_aborted(sim: Program) -> None:
    fault(sim, hang=True)
    with sim.stream("/v1/completions", PROMPT):
        until("it runs", lambda: sim.state()["running"] == 1)
    until("it is aborted", lambda: sim.state()["aborted"] == 1)
    fault(sim)
    assert sim.ask("POST", "/v1/completions", PROMPT)[0] == 200


def test_it_dies_with_the_exit_code_asked_for(sim: Program) -> None:
    fault(sim, die=True, exit_code=7)
    assert sim.exit_status() == 7


def test_slow_health_is_slow_while_bytes_flow(sim: Program) -> None:
    fault(sim, slow_health_s=60)
    assert sim.ask("POST", "/v1/completions", PROMPT)[0] == 200
    fault(sim, slow_health_s=1)
    begun = time.monotonic()
    assert sim.ask("GET", "/health") == (200, "")
    assert time.monotonic() - begun >= 1


def test_health_answers_the_status_asked_for(sim: Program) -> None:
    fault(sim, health_status=503)
    assert sim.ask("GET", "/health") == (503, "")


def test_an_error_in_mid_stream_comes_after_the_chunks_asked_for(sim: Program) -> None:
    fault(sim, error_after_chunks=3)
    with sim.stream("/v1/completions", PROMPT) as response:
        got = events(response)
    assert response.status == 200
    assert ["error" in item for item in got] == [False, False, False, True, False]
    assert got[-1] == "[DONE]"
    assert sim.ask("POST", "/v1/completions", PROMPT)[0] == 500
    until("both count as aborted", lambda: sim.state()["aborted"] == 2)


def test_a_broken_connection_in_mid_stream_has_no_end(sim: Program) -> None:
    fault(sim, disconnect_after_chunks=2)
    with sim.stream("/v1/completions", PROMPT) as response, pytest.raises((http.client.HTTPException, OSError)):
        response.read()
    until("it is aborted", lambda: sim.state()["aborted"] == 1)
    assert sim.state()["running"] == 0


def test_a_failing_status_is_answered_as_often_as_asked_for(sim: Program) -> None:
    fault(sim, fail_status=503, count=2)
    assert [sim.ask("POST", "/v1/completions", PROMPT)[0] for _ in range(4)] == [503, 503, 200, 200]
    fault(sim, fail_status=429)
    assert [sim.ask("POST", "/v1/completions", PROMPT)[0] for _ in range(3)] == [429, 429, 429]
    fault(sim)
    assert sim.ask("POST", "/v1/completions", PROMPT)[0] == 200


@pytest.mark.parametrize(
    "faults",
    [{"explode": True}, {"hang": "yes"}, {"count": -1}, {"slow_health_s": "long"}, {"exit_code": True}, [], "hang"],
)
def test_faults_that_mean_nothing_are_refused_and_change_nothing(sim: Program, faults: object) -> None:
    fault(sim, health_status=503)
    assert sim.ask("POST", "/sim/faults", faults)[0] == 400
    assert sim.state()["faults"]["health_status"] == 503


def test_the_state_remembers_request_ids_and_headers_but_no_key(sim: Program) -> None:
    for number in range(3):
        sim.ask("POST", "/v1/completions", PROMPT, x_request_id=f"id-{number}", authorization="Bearer secret")
    state = sim.state()
    assert state["requests"] == 3
    assert state["request_ids"] == ["id-0", "id-1", "id-2"]
    assert state["last_headers"]["x-request-id"] == "id-2"
    assert state["last_headers"]["authorization"] == f"sha256:{hashlib.sha256(b'Bearer secret').hexdigest()}"
    assert state["finished"] == 3


def test_a_client_that_resets_its_connection_counts_as_gone(sim: Program) -> None:
    fault(sim, hang=True)
    body = b'{"prompt": "x", "stream": true}'
    with socket.create_connection(("127.0.0.1", sim.port), timeout=5) as connection:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    until("it is aborted", lambda: sim.state()["aborted"] == 1)
