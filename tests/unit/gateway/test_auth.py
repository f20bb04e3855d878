# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.admit.auth import Keyring, LiveKey
from llmgw.gateway.wire.refusal import NO_KEY, WRONG_KEY
from llmgw.model.replica import ApiKeySpec


def spec(name: str, secret: str, **more: object) -> ApiKeySpec:
    return ApiKeySpec(name, sha256(secret.encode()).hexdigest(), **more)  # type: ignore[arg-type]


def ring(*specs: ApiKeySpec) -> Keyring:
    keys = Keyring()
    keys.swap(specs)
    return keys


def found(keys: Keyring, authorization: bytes | None, api_key: bytes | None = None) -> str:
    key = keys.find(authorization, api_key)
    return key.name if isinstance(key, LiveKey) else key.code


def test_a_key_is_found_by_its_secret_alone() -> None:
    keys = ring(spec("a", "one"), spec("b", "two"))
    assert found(keys, b"Bearer one") == "a"
    assert found(keys, b"bEARER   two ") == "b"
    assert found(keys, b"Bearer three") == WRONG_KEY.code
    assert found(keys, b"Bearer " + sha256(b"one").hexdigest().encode()) == WRONG_KEY.code


@pytest.mark.parametrize("header", [None, b"", b"one", b"Basic one", b"Bearer", b"Bearer   "])
def test_what_has_no_key_is_told_so(header: bytes | None) -> None:
    assert found(ring(spec("a", "one")), header) == NO_KEY.code


def test_clients_of_anthropic_send_their_key_in_a_header_of_its_own() -> None:
    keys = ring(spec("a", "one"), spec("b", "two"))
    assert found(keys, None, b"two") == "b"
    assert found(keys, b"Basic x", b" two ") == "b"
    assert found(keys, None, b"three") == WRONG_KEY.code
    assert found(keys, None, b" ") == NO_KEY.code


def test_a_wrong_key_is_not_saved_by_a_second_one() -> None:
    assert found(ring(spec("a", "one")), b"Bearer wrong", b"one") == WRONG_KEY.code


def test_without_keys_everybody_is_let_in_and_with_the_first_nobody_else() -> None:
    assert Keyring().open
    assert not ring(spec("a", "one")).open


def test_upper_case_hashes_are_the_same_keys() -> None:
    keys = ring(ApiKeySpec("a", sha256(b"one").hexdigest().upper()))
    assert found(keys, b"Bearer one") == "a"


def test_the_hash_that_was_looked_up_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(mine: str, theirs: str) -> bool:
        compared.append(theirs)
        return mine == theirs and mine != sha256(b"two").hexdigest()

    monkeypatch.setattr("llmgw.gateway.admit.auth.hmac.compare_digest", compare)
    keys = ring(spec("a", "one"), spec("b", "two"))
    assert found(keys, b"Bearer one") == "a"
    assert found(keys, b"Bearer two") == WRONG_KEY.code
    assert compared == [sha256(secret).hexdigest() for secret in (b"one", b"two")]


@given(st.lists(st.sampled_from("abcdef"), max_size=20))
def test_a_key_that_stays_keeps_what_it_has_in_flight_and_what_it_has_used(names: list[str]) -> None:
    keys = Keyring()
    keys.swap(spec(name, name, requests_per_minute=3) for name in "abcdef")
    used: dict[str, int] = {}
    for name in names:
        key = keys.find(b"Bearer " + name.encode())
        assert isinstance(key, LiveKey)
        refused = key.limits.admit(0.0, 0)
        assert (refused is None) == (used.get(name, 0) < 3)
        used[name] = used.get(name, 0) + (refused is None)
        key.in_flight += 1
        keys.swap(spec(other, other, requests_per_minute=3) for other in reversed("abcdef"))
    for key in keys:
        assert key.in_flight == names.count(key.name)


def test_a_key_that_goes_is_unknown_and_comes_back_as_a_new_one() -> None:
    keys = ring(spec("a", "one", requests_per_minute=1), spec("b", "two"))
    first = keys.find(b"Bearer one")
    assert isinstance(first, LiveKey)
    assert first.limits.admit(0.0, 0) is None
    keys.swap([spec("b", "two")])
    assert found(keys, b"Bearer one") == WRONG_KEY.code
    keys.swap([spec("a", "one", requests_per_minute=1)])
    again = keys.find(b"Bearer one")
    assert isinstance(again, LiveKey)
    assert again is not first
    assert again.limits.admit(0.0, 0) is None


def test_a_key_is_for_the_services_of_the_newest_bundle() -> None:
    keys = ring(spec("a", "one"))
    key = keys.find(b"Bearer one")
    assert isinstance(key, LiveKey)
    assert key.may_use("chat")
    keys.swap([spec("a", "one", services=("embed",), priority=7)])
    assert not key.may_use("chat")
    assert key.may_use("embed")
    assert key.priority == 7


def test_what_may_run_at_a_time_is_divided_or_counted_over_all_workers_where_they_tell() -> None:
    keys = Keyring()
    keys.swap([spec("a", "one", max_concurrency=8)], gateways=2, workers=4)
    key = keys.find(b"Bearer one")
    assert isinstance(key, LiveKey)
    assert key.max_concurrency == 1
    key.elsewhere = 1
    assert key.max_concurrency == 3
    keys.swap([spec("a", "one")])
    assert key.max_concurrency is None
