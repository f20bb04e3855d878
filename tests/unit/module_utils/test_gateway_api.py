# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import gateway_api
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Response
from tests.support.fake_host import FakeHost

URL = "http://127.0.0.1:8081"
REFUSED = Response(None, b"", "[Errno 111] Connection refused")
TIMEOUT = Response(None, b"", "timed out")


def says(generation: int | None, in_flight: Mapping[str, int | None]) -> Response:
    endpoints = [{"id": name, "in_flight": count} for name, count in in_flight.items()]
    return Response(200, json.dumps({"generation": generation, "endpoints": endpoints}).encode())


class Gateway(FakeHost):
    """Gives one answer after the other, the last one for ever."""

    def __init__(self, *answers: Response) -> None:
        super().__init__()
        self._left = list(answers)

    def fetch(self, url: str, timeout_s: float, headers: dict[str, str]) -> Response:
        assert timeout_s > 0
        self.fetched.append((url, headers))
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]


def wait(gateway: Gateway, *endpoints: str, drain_timeout_s: float = 5.0) -> gateway_api.Drained:
    return gateway_api.wait(gateway, URL, "secret", 7, endpoints, reload_timeout_s=0.2, drain_timeout_s=drain_timeout_s)


def test_it_waits_for_the_routes_and_then_for_the_last_request() -> None:
    gateway = Gateway(says(6, {"chat/0@n1": 0}), says(7, {"chat/0@n1": 2, "chat/1@n2": 9}), says(7, {"chat/0@n1": 0}))
    drained = wait(gateway, "chat/0@n1")
    assert (drained.complete, drained.generation, drained.in_flight) == (True, 7, {})
    assert gateway.fetched == [(f"{URL}/api/v1/endpoints", {"Authorization": "Bearer secret"})] * 3


def test_idle_under_old_routes_is_not_drained() -> None:
    drained = wait(Gateway(says(6, {"chat/0@n1": 0})), "chat/0@n1", drain_timeout_s=0.2)
    assert drained.complete is False
    assert "goes by generation 6, not yet by 7" in drained.detail
    assert drained.in_flight == {"chat/0@n1": None}


def test_an_endpoint_that_is_gone_is_drained() -> None:
    assert wait(Gateway(says(8, {})), "chat/0@n1").complete is True


def test_a_closed_port_means_nothing_is_in_flight() -> None:
    drained = wait(Gateway(REFUSED), "chat/0@n1")
    assert (drained.complete, drained.detail) == (True, "no gateway runs there")
    assert drained.waited_s < 0.2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (TIMEOUT, "the gateway does not answer (timed out)"),
        (Response(401, b""), "HTTP status 401"),
        (says(7, {"chat/0@n1": 3}), "in flight: chat/0@n1 3"),
        (says(7, {"chat/0@n1": None}), "in flight: chat/0@n1 -"),
        (Response(200, b"<html>"), "not JSON"),
    ],
)
def test_everything_else_costs_the_deadline_and_is_said(answer: Response, reason: str) -> None:
    drained = wait(Gateway(answer), "chat/0@n1", drain_timeout_s=0.3)
    assert drained.complete is False
    assert reason in drained.detail
    assert 0.3 <= drained.waited_s <= 0.6
    assert list(drained.in_flight) == ["chat/0@n1"]


def test_without_endpoints_only_the_routes_are_waited_for() -> None:
    drained = wait(Gateway(TIMEOUT), drain_timeout_s=60)
    assert drained.complete is False
    assert drained.waited_s < 0.5


@given(st.binary(), st.integers(100, 599) | st.none())
def test_no_answer_breaks_the_reader(body: bytes, status: int | None) -> None:
    gateway_api.understand(Response(status, body, None))


def sees(generation: int, **states: str) -> Response:
    entries = [{"id": name.replace("_", "/"), "state": state, "in_flight": 0} for name, state in states.items()]
    return Response(200, json.dumps({"generation": generation, "endpoints": entries}).encode())


def wait_ready(gateway: Gateway, *endpoints: str, timeout_s: float = 5.0) -> gateway_api.Seen:
    return gateway_api.wait_ready(gateway, URL, "secret", 7, endpoints, timeout_s=timeout_s)


def test_what_was_started_is_waited_for_until_the_gateway_sees_it_answer() -> None:
    gateway = Gateway(sees(6, chat_0="ready"), sees(7, chat_0="loading"), sees(7, chat_0="ready"))
    assert wait_ready(gateway, "chat/0").complete is True


def test_an_endpoint_that_the_gateway_cannot_reach_is_named_with_its_state() -> None:
    seen = wait_ready(Gateway(sees(7, chat_0="ready", chat_1="starting")), "chat/0", "chat/1", "chat/2", timeout_s=0.2)
    assert seen.complete is False
    assert seen.detail == "chat/1 is starting, chat/2 is unknown"
    assert seen.unready == ("chat/1", "chat/2")


def test_no_gateway_has_nothing_to_see_and_a_mute_one_is_an_obstacle() -> None:
    assert wait_ready(Gateway(REFUSED), "chat/0").complete is True
    mute = wait_ready(Gateway(TIMEOUT), "chat/0", timeout_s=0.2)
    assert (mute.complete, mute.unready) == (False, ("chat/0",))
    old = wait_ready(Gateway(sees(6, chat_0="ready")), "chat/0", timeout_s=0.2)
    assert (old.complete, old.unready) == (False, ("chat/0",))


@pytest.mark.parametrize(("token", "why"), [(None, "it asks for its admin token"), ("old", "does not take the admin")])
def test_a_gateway_that_wants_its_admin_token_is_told_from_one_that_sees_no_engine(token: str | None, why: str) -> None:
    gateway = Gateway(Response(401, b'{"error": {}}'))
    seen = gateway_api.wait_ready(gateway, URL, token, 7, ("chat/0",), timeout_s=0.2)
    assert (seen.complete, seen.refused, seen.unready) == (False, True, ("chat/0",))
    assert why in seen.detail
    assert "llmgw_gateway_admin_token_file" in seen.detail
    assert wait_ready(Gateway(TIMEOUT), "chat/0", timeout_s=0.2).refused is False


def test_a_gateway_that_goes_by_newer_routes_without_what_was_started_is_not_waited_for() -> None:
    seen = wait_ready(Gateway(sees(8, other_0="ready")), "chat/0", timeout_s=60)
    assert (seen.complete, seen.detail) == (False, "chat/0 is unknown")
    assert seen.waited_s < 5


def test_what_is_not_ready_is_told_with_why() -> None:
    states: dict[str, str | None] = {"a/0@n1": "loading", "b/0@n1": "ready", "c/0@n1": "failed"}
    reading = gateway_api.Reading(runs=True, generation=3, states=states, details={"a/0@n1": "it asks for a key"})
    told = gateway_api.unready(reading, 3, list(states))
    assert told == "a/0@n1 is loading (it asks for a key), c/0@n1 is failed"
