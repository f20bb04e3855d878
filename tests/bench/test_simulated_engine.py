# SPDX-License-Identifier: Apache-2.0
"""The simulated engine against what its rules say on paper, without a clock."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.routing_engine import STEP_TOKENS, Engine, Hardware, Job
from tests.bench.routing_prefix import BLOCK_TOKENS, TOKEN_BYTES, BlockCache, chain

CARD = Hardware("test", prefill_tps=10_000, step_s=0.01, request_s=0.001, kv_tokens=64_000)


def text(tokens: int, begins: str = "a") -> bytes:
    return "".join(f"{begins}{number % 1000:03d}" for number in range(tokens)).encode()


def job(prompt: bytes, answer_tokens: int = 1) -> Job:
    answer = text(answer_tokens, "z")
    return Job(len(prompt) // TOKEN_BYTES, answer_tokens, chain(prompt), chain(prompt + answer))


def run(engine: Engine, jobs: list[Job]) -> dict[int, list[float]]:
    """When each of the jobs had each of its tokens, all submitted at time 0."""
    for one in jobs:
        engine.submit(one)
    now = 0.0
    times: dict[int, list[float]] = {place: [] for place in range(len(jobs))}
    while (duration := engine.begin()) is not None:
        now += duration
        for one in engine.end():
            if one in jobs:
                times[jobs.index(one)].append(now)
    return times


def test_the_first_token_of_a_lone_request_comes_when_its_prompt_has_been_read() -> None:
    times = run(Engine(CARD), [job(text(5000), 3)])
    whole = (5000 - 2 * STEP_TOKENS) / CARD.prefill_tps + 2 * STEP_TOKENS / CARD.prefill_tps
    alone = CARD.step_s + CARD.request_s
    assert times[0] == pytest.approx([whole, whole + alone, whole + 2 * alone])


def test_a_short_prompt_takes_one_reading_of_the_weights() -> None:
    assert run(Engine(CARD), [job(text(8))])[0] == [CARD.step_s]


def test_a_prompt_that_was_read_before_costs_its_last_block() -> None:
    engine = Engine(CARD)
    run(engine, [job(text(4000))])
    again = job(text(4000))
    assert run(engine, [again])[0] == [CARD.step_s]
    assert again.cached_tokens == 4000 - BLOCK_TOKENS


def test_only_what_a_prompt_has_in_common_from_its_beginning_is_cached() -> None:
    engine = Engine(CARD)
    run(engine, [job(text(1600) + text(1600, "b"))])
    longer, other = job(text(1600) + text(3200, "c")), job(text(1600, "b"))
    assert run(engine, [longer])[0] == pytest.approx([2048 / 10_000 + 1152 / 10_000])
    run(engine, [other])
    assert (longer.cached_tokens, other.cached_tokens) == (1600, 0)


def test_a_prompt_is_found_while_the_request_that_had_it_read_still_writes() -> None:
    engine = Engine(CARD)
    engine.submit(job(text(1600), 100))
    engine.begin()
    engine.end()
    second = job(text(1600) + text(16, "b"))
    run(engine, [second])
    assert second.cached_tokens == 1600


def test_the_next_turn_of_a_conversation_finds_the_answer_cached() -> None:
    engine = Engine(CARD)
    run(engine, [job(text(320), 160)])
    following = job(text(320) + text(160, "z") + text(160, "q"))
    run(engine, [following])
    assert following.cached_tokens == 480


def test_a_full_batch_slows_every_request_by_what_each_adds() -> None:
    jobs = [job(text(16, chr(ord("a") + number)), 50) for number in range(20)]
    times = run(Engine(CARD), jobs)
    assert {round(later - sooner, 9) for one in times.values() for sooner, later in pairwise(one)} == {
        round(CARD.step_s + 20 * CARD.request_s, 9)
    }


def test_prompts_are_read_first_come_first_served_and_writers_go_on_meanwhile() -> None:
    engine = Engine(CARD)
    writer = job(text(16), 100)
    engine.submit(writer)
    engine.begin()
    engine.end()
    times = run(engine, [job(text(3000, "b")), job(text(1000, "c"))])
    step = (STEP_TOKENS - 1) / CARD.prefill_tps + CARD.request_s
    assert times[0] == times[1][:1]  # the second step reads the rest of the first prompt and all of the other
    assert times[0][0] == pytest.approx(step + (4000 - STEP_TOKENS + 1) / CARD.prefill_tps + CARD.request_s)
    assert writer.written == 100


def test_a_request_waits_until_the_cache_has_room_for_it() -> None:
    small = Hardware("test", 10_000, 0.01, 0.001, kv_tokens=1600)
    first, second = job(text(1000), 10), job(text(1000, "b"), 10)
    times = run(Engine(small), [first, second])
    assert times[1][0] == pytest.approx(times[0][-1] + 0.1)


def test_a_client_that_leaves_makes_room_for_the_next() -> None:
    small = Hardware("test", 10_000, 0.01, 0.001, kv_tokens=1600)
    engine, first, second = Engine(small), job(text(1000), 10), job(text(1000, "b"), 10)
    engine.submit(first)
    engine.submit(second)
    engine.begin()
    engine.end()
    engine.leave(first)
    engine.begin()
    assert engine.running == [second]
    assert engine.cache.in_use == -(-1010 // BLOCK_TOKENS)


def test_a_client_that_leaves_while_it_waits_is_never_served() -> None:
    engine, one = Engine(CARD), job(text(1000))
    engine.submit(one)
    engine.leave(one)
    assert engine.begin() is None


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 20), st.sampled_from("abc")), max_size=30), st.integers())
def test_when_all_is_answered_no_block_is_held(asked: list[tuple[int, int, str]], chance: int) -> None:
    engine = Engine(Hardware("test", 10_000, 0.01, 0.001, kv_tokens=1600))
    jobs = [job(text(10 * length, begins), answer) for length, answer, begins in asked]
    for place, one in enumerate(jobs):
        engine.submit(one)
        if (chance + place) % 3 == 0 and engine.begin() is not None:
            engine.end()
        if (chance + place) % 5 == 0:
            engine.leave(one)
    while engine.begin() is not None:
        assert engine.cache.in_use <= engine.cache.blocks
        engine.end()
    assert engine.cache.in_use == 0
    assert len(engine.waiting) == 0


def test_the_oldest_blocks_are_lost_first_and_of_one_request_the_last() -> None:
    cache = BlockCache(4)
    for blocks in ((1, 2), (11, 12)):
        lease = cache.take(blocks, 2, 2)
        assert lease is not None
        cache.computed(lease, blocks)
        cache.give_back(lease)
    third = cache.take((21,), 1, 1)
    assert third is not None
    found = cache.take((1, 2), 2, 2)
    assert found is not None
    assert found.shared == [1]
