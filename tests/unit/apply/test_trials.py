# SPDX-License-Identifier: Apache-2.0
"""Canaries, judged by the answers that all gateways together saw."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.apply.trials import Canary, canary_line, judged

TRIAL = {"endpoints": ["chat/0@n1"], "answers": 20, "max_errors": 0, "timeout_s": 600}


def gateway(good: int, bad: int = 0, endpoint: str = "chat/0@n1", **more: Any) -> dict[str, Any]:
    return {"answers": {endpoint: {"good": good, "bad": bad}}, **more}


def objection(*results: dict[str, Any], **trial: Any) -> str | None:
    (found,) = judged([TRIAL | trial], results)
    return found.objection


def test_good_answers_of_all_gateways_together_count() -> None:
    assert judged([TRIAL], [gateway(12), gateway(8)]) == [Canary("chat/0@n1", 20, 0, None)]
    assert judged([TRIAL], [gateway(12), gateway(7)])[0].objection is not None
    assert judged([TRIAL], [gateway(25), {}]) == [Canary("chat/0@n1", 25, 0, None)]


def test_too_few_good_answers_are_told_with_figures_and_what_to_set() -> None:
    assert objection(gateway(3, 0), gateway(0, 0)) == (
        "canary chat/0@n1: 3 good and 0 bad answers of 20 wanted within 600 s. Ask for fewer by "
        "services.chat.rollout.canary.answers, or give it more time by services.chat.rollout.canary.timeout."
    )


def test_bad_answers_of_all_gateways_together_count_even_beside_enough_good_ones() -> None:
    assert objection(gateway(20, 1)) == (
        "canary chat/0@n1: 20 good and 1 bad answer of 20 wanted within 600 s; none may be bad."
    )
    assert objection(gateway(18, 2), gateway(2, 1), max_errors=2) == (
        "canary chat/0@n1: 20 good and 3 bad answers of 20 wanted within 600 s; at most 2 may be bad."
    )
    assert objection(gateway(18, 1), gateway(2, 1), max_errors=2) is None


def test_a_canary_that_nobody_asked_has_not_passed_and_says_what_to_do() -> None:
    said = objection(gateway(0), gateway(0))
    assert said is not None
    assert said.startswith("canary chat/0@n1: no request came to it within 600 s, and 20 good answers were wanted.")
    assert "Send chat some requests" in said
    assert "services.chat.rollout.canary.timeout" in said


def test_a_canary_that_no_gateway_tells_of_has_not_passed_and_says_why() -> None:
    unknown = {"answers": {"chat/0@n1": None}, "tried": "the gateway does not answer (timed out)"}
    assert objection(unknown, unknown) == (
        "canary chat/0@n1: there is no gateway that tells how it does (the gateway does not answer (timed out)). Bring "
        "one back, or roll out without a canary."
    )
    assert "there is no gateway that tells" in str(objection())
    assert objection(unknown, gateway(20)) is None


def test_each_endpoint_of_each_trial_is_judged_by_itself() -> None:
    trials = [TRIAL | {"endpoints": ["chat/1@n2", "chat/0@n1"]}, TRIAL | {"endpoints": ["code/0@n3"], "answers": 1}]
    answers = {"chat/0@n1": {"good": 20, "bad": 0}, "code/0@n3": {"good": 1, "bad": 0}}
    found = judged(trials, [{"answers": answers}])
    assert [(one.endpoint, one.good) for one in found] == [("chat/0@n1", 20), ("chat/1@n2", 0), ("code/0@n3", 1)]
    assert [one.endpoint for one in found if one.objection] == ["chat/1@n2"]
    assert judged([], [gateway(1)]) == []


@pytest.mark.parametrize("count", [{"good": None, "bad": None}, {}])
def test_a_gateway_that_tells_no_number_counts_nothing(count: dict[str, Any]) -> None:
    assert "no request came to it" in str(objection({"answers": {"chat/0@n1": count}}))


def test_what_a_canary_did_is_a_line() -> None:
    assert canary_line(Canary("chat/0@n1", 20, 0, None)) == "canary chat/0@n1  20 good answers, 0 bad"
    assert canary_line(Canary("chat/0@n1", 1, 3, "why")) == "canary chat/0@n1  1 good answer, 3 bad"


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), min_size=1, max_size=4),
    st.integers(1, 40),
    st.integers(0, 4),
)
def test_a_canary_passes_with_enough_good_answers_and_not_too_many_bad_ones_wherever_they_were_seen(
    seen: list[tuple[int, int]], wanted: int, allowed: int
) -> None:
    results = [gateway(good, bad) for good, bad in seen]
    good, bad = sum(one for one, _ in seen), sum(one for _, one in seen)
    (found,) = judged([TRIAL | {"answers": wanted, "max_errors": allowed}], results)
    assert (found.good, found.bad) == (good, bad)
    assert (found.objection is None) == (good >= wanted and bad <= allowed)
    assert judged([TRIAL], reversed(results)) == judged([TRIAL], results)


def test_counting_that_ended_before_its_time_says_why() -> None:
    gone = gateway(5, tried="the gateway goes by generation 9 by now", tried_s=7.2)
    assert (objection(gone) or "").endswith("Counting ended early: the gateway goes by generation 9 by now.")
    whole = gateway(5, tried="went on after 600.0 s", tried_s=600.0)
    assert "early" not in (objection(gone, whole) or "early")
