# SPDX-License-Identifier: Apache-2.0
"""What workers tell each other of prompts (G4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.routing.cost import Ask, EndpointCosts
from llmgw.gateway.routing.prefix_news import MOST_BLOCKS_KEPT, News, read_news
from tests.support.seen_endpoints import spec

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
CHAINS = st.lists(st.lists(NUMBERS, min_size=1, max_size=20).map(tuple), max_size=20)


@given(CHAINS)
def test_what_is_told_is_heard(chains: list[tuple[int, ...]]) -> None:
    news = News()
    for chain in chains:
        news.add(chain)
    told = news.take()
    assert list(read_news(told or b"")) == chains
    assert (told is None) is (not chains)
    assert news.take() is None


@given(st.binary(max_size=200))
def test_whatever_comes_reading_it_ends(data: bytes) -> None:
    assert sum(len(chain) for chain in read_news(data)) <= len(data) / 8


def test_what_waits_to_be_told_is_bounded() -> None:
    news = News()
    for number in range(200):
        news.add(tuple(range(number, number + 2048)))
    assert len(news.take() or b"") <= 8 * (MOST_BLOCKS_KEPT + 200)


def test_a_worker_knows_what_another_one_sent() -> None:
    one, other = EndpointCosts(spec()), EndpointCosts(spec())
    one.news = News()
    ask = Ask(640, tuple(range(10)))
    one.done(one.charge(ask, 1.0), 1.0)
    other.heard(one.news.take() or b"")
    assert other.terms(ask, 1.0).cached_tokens == 640
    assert other.in_flight == 0


def test_only_what_is_new_is_told() -> None:
    costs = EndpointCosts(spec())
    costs.news = News()
    for _turn in range(3):
        costs.done(costs.charge(Ask(640, tuple(range(10))), 1.0), 1.0)
    assert list(read_news(costs.news.take() or b"")) == [tuple(range(10))]


def test_who_is_alone_keeps_no_news() -> None:
    costs = EndpointCosts(spec())
    costs.done(costs.charge(Ask(640, tuple(range(10))), 1.0), 1.0)
    assert costs.news is None


@pytest.mark.parametrize("chain", [(), (1,)])
def test_a_prompt_without_blocks_is_no_news(chain: tuple[int, ...]) -> None:
    costs = EndpointCosts(spec())
    costs.news = News()
    costs.charge(Ask(10, chain), 1.0)
    assert (costs.news.take() is None) is (not chain)
