# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.records.explain import (
    GOLDEN,
    MOST_ATTEMPTS,
    MOST_CANDIDATES,
    MOST_LEFT_OUT,
    ROOT_OF_TWO,
    Explained,
    Explanations,
    Sampler,
    newest,
)
from llmgw.gateway.records.record import MOST_CHARACTERS, RequestRecord
from llmgw.gateway.routing.cost import Terms


def terms(endpoint: str, total_s: float, **more: Any) -> Terms:
    values = {"queue_s": total_s, "prefill_s": 0.0, "decode_s": 0.0, "kv_s": 0.0, "risk_s": 0.0, "weight": 1.0}
    return Terms(endpoint=endpoint, total_s=total_s, cached_tokens=0, in_flight=0, **{**values, **more})


def chose(explained: Explained, endpoint: str, *candidates: Terms, **more: Any) -> None:
    values: dict[str, Any] = {"service": "chat", "policy": "cost", "after_s": 0.5, "left_out": ()} | more
    explained.chose(endpoint, candidates, values.pop("left_out"), **values)


def kept(*names: str, service: str = "chat", at: float = 0.0) -> Explanations:
    explanations = Explanations()
    for number, name in enumerate(names):
        explanations.begin(name, at + number, service, asked=False)
    return explanations


def names_of(documents: list[dict[str, Any]]) -> list[str]:
    return [document["request_id"] for document in documents]


# --- the sample ---


@given(st.floats(0, 1), st.integers(min_value=0), st.sampled_from([GOLDEN, ROOT_OF_TWO]))
def test_the_sample_is_its_share_of_all_requests(share: float, seed: int, step: int) -> None:
    sampler = Sampler(share, seed, step)
    taken = 0
    for number in range(1, 1001):
        taken += sampler.take()
        assert abs(taken - share * number) < 5


def test_all_or_none_is_exactly_that() -> None:
    assert all(Sampler(1.0).take() for _request in range(1000))
    assert not any(Sampler(0.0).take() for _request in range(1000))


def test_no_rhythm_of_requests_is_in_step_with_the_sample() -> None:
    for rhythm in (2, 10, 50, 100, 128, 1000):
        sampler = Sampler(0.01, seed=7)
        taken = [number % rhythm for number in range(100 * rhythm * 10) if sampler.take()]
        most = max(taken.count(beat) for beat in set(taken))
        assert most <= 10 * 3  # 10 would be the share of each beat


def test_two_samples_of_the_same_requests_have_nothing_to_do_with_each_other() -> None:
    for seed in range(0, 1 << 64, 1 << 60):
        explained, elsewhere = Sampler(0.01, seed), Sampler(0.05, step=ROOT_OF_TWO)
        both = sum(explained.take() & elsewhere.take() for _request in range(100_000))
        assert 25 < both < 100  # 50 is what chance would give


def test_the_share_may_change_while_it_runs() -> None:
    sampler = Sampler(0.0)
    assert not any(sampler.take() for _request in range(100))
    sampler.share = 1.0
    assert sampler.take()


# --- the ring ---


def test_an_older_one_goes_for_each_that_comes() -> None:
    explanations = Explanations(most_kept=3)
    for number in range(10):
        explanations.begin(str(number), float(number), "chat", asked=True)
    assert len(explanations) == 3
    assert names_of(explanations.recent(100)) == ["9", "8", "7"]
    assert explanations.find("6") is None


def test_recent_ones_come_newest_first_and_at_most_as_many_as_asked_for() -> None:
    explanations = kept("a", "b", "c")
    assert names_of(explanations.recent(2)) == ["c", "b"]
    assert names_of(explanations.recent(0)) == []


def test_recent_ones_of_a_service_are_those_that_asked_for_it_or_came_to_it() -> None:
    explanations = Explanations()
    chose(explanations.begin("asked", 1.0, "chat", asked=False), "chat/0@n1")
    chose(explanations.begin("fell back", 2.0, "big", asked=False), "chat/0@n1", service="chat")
    chose(explanations.begin("other", 3.0, "big", asked=False), "big/0@n1", service="big")
    assert names_of(explanations.recent(9, "chat")) == ["fell back", "asked"]
    assert names_of(explanations.recent(9, "nope")) == []


def test_of_two_requests_with_one_id_the_newer_one_is_found() -> None:
    explanations = kept("a", "b", "a")
    found = explanations.find("a")
    assert found is not None
    assert found["at"] == 2.0


def test_a_request_shows_while_it_runs_and_what_became_of_it_after() -> None:
    explanations = Explanations()
    explained = explanations.begin("a", 1.0, "chat", asked=True)
    chose(explained, "chat/0@n1", terms("chat/0@n1", 0.25), terms("chat/1@n2", 0.5))
    running = explanations.find("a")
    assert running is not None
    assert running["record"] is None
    assert [attempt["endpoint"] for attempt in running["attempts"]] == ["chat/0@n1"]
    explained.ended(RequestRecord("a", 1.0, "POST", "/v1/completions", status=200, end="complete"))
    ended = explanations.find("a")
    assert ended is not None
    assert (ended["record"]["status"], ended["record"]["end"]) == (200, "complete")
    assert "prompt_tokens" not in ended["record"]
    assert explanations.recent(1)[0]["endpoint"] == "chat/0@n1"


def test_the_list_names_the_endpoint_of_the_last_attempt() -> None:
    explanations = Explanations()
    explained = explanations.begin("a", 1.0, "chat", asked=True)
    chose(explained, "chat/0@n1")
    chose(explained, "chat/1@n2")
    (brief,) = explanations.recent(1)
    assert (brief["endpoint"], brief["attempts"]) == ("chat/1@n2", 2)


def test_the_chosen_one_is_kept_beside_the_cheapest_others_in_order_of_cost() -> None:
    explained = kept("a")._kept[0]
    candidates = [terms(f"chat/{number}@n", float(number)) for number in range(40)]
    chose(explained, "chat/39@n", *candidates, left_out=[("chat/40@n", "ejected")])
    (attempt,) = explained.attempts
    shown = [one.endpoint for one in attempt.candidates]
    assert shown == [*(f"chat/{number}@n" for number in range(MOST_CANDIDATES - 1)), "chat/39@n"]
    assert attempt.considered == 40
    assert attempt.left_out == {"chat/40@n": "ejected"}


def test_a_request_holds_little_whatever_it_names_and_however_often_it_is_tried() -> None:
    explained = kept("a")._kept[0]
    for _attempt in range(MOST_ATTEMPTS + 5):
        chose(explained, "x", left_out=[(f"chat/{number}@n", "loading") for number in range(100)])
    explained.ended(RequestRecord("a", 1.0, "POST", "/v1/" + "p" * 9999, model="m" * 9999))
    assert len(explained.attempts) == MOST_ATTEMPTS
    assert len(explained.attempts[0].left_out) == MOST_LEFT_OUT
    assert explained.record is not None
    assert len(explained.record.model or "") == len(explained.record.path) == MOST_CHARACTERS


def test_what_is_kept_is_told_in_plain_values() -> None:
    explanations = Explanations()
    explained = explanations.begin("a", 1.0, "chat", asked=False)
    chose(explained, "x", terms("x", 0.25, session=True))
    explained.ended(RequestRecord("a", 1.0, "POST", "/"))
    for document in (explanations.find("a"), explanations.recent(1)):
        assert json.loads(json.dumps(document)) == document
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(document)) == document


# --- several workers ---


def test_workers_requests_are_told_as_one_list_newest_first() -> None:
    of_all = [kept("a", "c", at=0.0).recent(9), kept("b", "d", at=0.5).recent(9)]
    assert names_of(newest(of_all, 3)) == ["d", "c", "b"]
    assert newest([], 3) == []


def test_the_order_of_workers_does_not_matter() -> None:
    one, other = kept("a", "b").recent(9), kept("c", "d").recent(9)
    assert newest([one, other], 3) == newest([other, one], 3)
