# SPDX-License-Identifier: Apache-2.0
"""Who runs, who waits, what is cached, and how /metrics tells it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from tests.unit.engines_programs.programs import Program, events, until

ENDLESS = {"prompt": "hello", "max_tokens": 8000, "ignore_eos": True}


def metric(sim: Program, name: str, labels: str = r'engine="0",model_name="m"') -> float:
    status, text = sim.ask("GET", "/metrics")
    assert status == 200
    values = re.findall(rf"^vllm:{name}\{{{labels}\}} (\S+)$", text, re.MULTILINE)
    assert len(values) == 1, f"{name} is there {len(values)} times"
    return float(values[0])


def test_requests_beyond_the_running_set_wait_their_turn(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--max-num-seqs", "2").ready()
    assert sim.ask("POST", "/sim/faults", {"hang": True})[0] == 200
    with ExitStack() as stack:
        streams = [stack.enter_context(sim.stream("/v1/completions", {"prompt": "hello"})) for _ in range(5)]
        until("two run, three wait", lambda: (sim.state()["running"], sim.state()["waiting"]) == (2, 3))
        assert metric(sim, "num_requests_running") == 2
        assert metric(sim, "num_requests_waiting") == 3
        assert sim.ask("POST", "/sim/faults", {})[0] == 200
        assert all(events(stream)[-1] == "[DONE]" for stream in streams)
    assert metric(sim, "num_requests_running") == 0
    assert metric(sim, "num_requests_waiting") == 0
    assert metric(sim, "request_success_total", r'.*finished_reason="length"') == 5
    assert sim.state()["finished"] == 5


def test_a_full_cache_makes_requests_wait_too(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--kv-tokens", "64", "--max-model-len", "64").ready()
    assert sim.ask("POST", "/sim/faults", {"hang": True})[0] == 200
    wants_48 = {"prompt": "hello", "max_tokens": 47, "ignore_eos": True}
    with sim.stream("/v1/completions", wants_48), sim.stream("/v1/completions", wants_48):
        until("one runs, one waits", lambda: (sim.state()["running"], sim.state()["waiting"]) == (1, 1))
        assert metric(sim, "kv_cache_usage_perc") == 0.75
    until("both are gone", lambda: sim.state()["aborted"] == 2)
    assert metric(sim, "kv_cache_usage_perc") == 0


def test_a_prompt_seen_before_hits_the_prefix_cache(sim: Program) -> None:
    prompt = " ".join(f"word{number}" for number in range(40))
    cached = []
    for text in (prompt, prompt + " and more", "else " + prompt):
        answer = sim.ask("POST", "/v1/completions", {"prompt": text, "max_tokens": 1})[1]
        cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert cached == [0, 32, 0]  # whole blocks of 16 tokens, from the start of the prompt
    assert metric(sim, "prefix_cache_queries_total") == 40 + 42 + 41
    assert metric(sim, "prefix_cache_hits_total") == 32
    assert metric(sim, "prompt_tokens_total") == 123


def test_the_cache_forgets_what_was_not_used_for_longest(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--kv-tokens", "64", "--max-model-len", "64").ready()  # four blocks

    def cached(letter: str, tokens: int = 33) -> int:
        prompt = " ".join(f"{letter}{number}" for number in range(tokens))
        answer = sim.ask("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 1})[1]
        return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])

    assert [cached(letter) for letter in "ababcba"] == [0, 0, 32, 32, 0, 32, 0]
    assert cached("d", 17) == 0
    assert cached("b") == 16, "a block goes before the one that it follows"


def test_uncached_prompt_tokens_take_their_time(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--prefill-rate", "1000").ready()
    prompt = " ".join(f"w{number}" for number in range(401))
    took = []
    for _ in range(2):
        begun = time.monotonic()
        assert sim.ask("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 1})[0] == 200
        took.append(time.monotonic() - begun)
    assert took[0] > 0.4
    assert took[1] < took[0] - 0.2


def test_tokens_come_at_the_pace_asked_for(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--ttft-ms", "200", "--itl-ms", "20").ready()
    begun = time.monotonic()
    assert sim.ask("POST", "/v1/completions", {"prompt": "x", "max_tokens": 11})[0] == 200
    assert time.monotonic() - begun >= 0.4
    assert metric(sim, "generation_tokens_total") == 11
    assert metric(sim, "time_to_first_token_seconds_count") == 1
    assert metric(sim, "time_to_first_token_seconds_sum") >= 0.2
    assert metric(sim, "time_to_first_token_seconds_bucket", r'.*le="0.1"') == 0
    assert metric(sim, "time_to_first_token_seconds_bucket", r'.*le="\+Inf"') == 1
    assert metric(sim, "inter_token_latency_seconds_count") == 10
    assert metric(sim, "e2e_request_latency_seconds_count") == 1
    assert metric(sim, "request_queue_time_seconds_count") == 1
    assert metric(sim, "cache_config_info", 'engine="0",block_size="16",num_gpu_blocks="4096"') == 1


def test_a_client_that_leaves_aborts_its_request(sim: Program) -> None:
    with sim.stream("/v1/completions", ENDLESS) as response:
        assert response.readline().startswith(b"data: ")
    until("the stream is aborted", lambda: sim.state()["aborted"] == 1)
    assert sim.state()["running"] == 0
    tokens = sim.state()["generated_tokens"]
    assert tokens < 8000
    assert metric(sim, "request_success_total", r'.*finished_reason="abort"') == 1


def test_a_waiting_client_that_leaves_is_aborted_and_holds_nobody_up(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--max-num-seqs", "1").ready()
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(sim.stream("/v1/completions", ENDLESS))
        second.enter_context(sim.stream("/v1/completions", ENDLESS))
        with sim.stream("/v1/completions", {"prompt": "short"}) as last:
            until("two wait", lambda: sim.state()["waiting"] == 2)
            second.close()
            until("one is gone", lambda: (sim.state()["waiting"], sim.state()["aborted"]) == (1, 1))
            first.close()
            assert events(last)[-1] == "[DONE]"


def test_three_hundred_streams_run_at_once(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--max-num-seqs", "300", "--ttft-ms", "500", "--itl-ms", "20").ready()

    def one(number: int) -> tuple[bool, int]:
        with sim.stream("/v1/completions", {"prompt": f"prompt {number}", "max_tokens": 10}) as response:
            got = events(response)
        return got[-1] == "[DONE]", len(got)

    with ThreadPoolExecutor(300) as pool:
        results = list(pool.map(one, range(300)))
    assert results == [(True, 12)] * 300
    assert sim.state()["finished"] == 300
