# SPDX-License-Identifier: Apache-2.0
"""The traffic of the routing benchmark, and the simulated fleet that answers it over real sockets."""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from llmgw.gateway.endpoints.engine_load import NAMES, read_load
from tests.bench.gateway_process import free_ports, running
from tests.bench.routing_engine import FLEET
from tests.bench.routing_fleet import TOKENS_PER_EVENT
from tests.bench.routing_prefix import BLOCK_TOKENS, TOKEN_BYTES, chain
from tests.bench.routing_traffic import BURST_EVERY_S, BURST_S, Conversation, answer, prompt, rendered, traffic

START_S = 30


def asked(conversation: Conversation, place: int) -> list[tuple[str, str]]:
    """The messages of a turn, all turns before it answered as engines answer."""
    messages = [("system", conversation.system)]
    for number, turn in enumerate(conversation.turns[: place + 1]):
        if number:
            messages.append(("assistant", answer(prompt(messages))))
        messages.append(("user", turn.question))
    return messages


def test_the_same_seed_asks_the_same_and_another_one_does_not() -> None:
    assert traffic(1, 20, 5) == traffic(1, 20, 5)
    assert traffic(1, 20, 5) != traffic(2, 20, 5)


def test_as_many_conversations_begin_as_were_asked_for_and_more_of_them_in_bursts() -> None:
    found = traffic(7, 400, 5)
    assert len(found) == pytest.approx(2000, rel=0.1)
    bursting = sum(one.turns[0].at % BURST_EVERY_S >= BURST_EVERY_S - BURST_S for one in found)
    assert bursting / len(found) == pytest.approx(0.5, abs=0.05)  # a fifth of the time at four times the rate
    assert all(turn.at < 400 for one in found for turn in one.turns)


def test_few_groups_have_most_conversations() -> None:
    groups = Counter(one.system for one in traffic(3, 400, 5))
    assert sum(count for _system, count in groups.most_common(10)) > 0.4 * sum(groups.values())
    assert len(groups) > 30


def test_a_turn_begins_with_all_that_was_said_before_it() -> None:
    conversation = next(one for one in traffic(1, 60, 5) if len(one.turns) > 2)
    first = prompt(asked(conversation, 0))
    second = prompt(asked(conversation, 1))
    said = first + answer(first).encode()
    assert second.startswith(said)
    assert chain(second)[: len(chain(said))] == chain(said)
    assert rendered(asked(conversation, 0)) == first[: len(rendered(asked(conversation, 0)))]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    ports = free_ports(len(FLEET))
    log_path = tmp_path_factory.mktemp("fleet") / "log"
    with log_path.open("wb") as log:
        words = [sys.executable, "-m", "tests.bench.routing_fleet", *map(str, ports)]
        with running("0-1023", words, log) as program:
            end = time.monotonic() + START_S
            while not listens(ports[-1]):
                assert program.process.poll() is None, log_path.read_text()
                assert time.monotonic() < end, "the simulated fleet did not start"
                time.sleep(0.05)
            yield ports


def listens(port: int) -> bool:
    try:
        page(port, "/health")
    except OSError:
        return False
    return True


def page(port: int, path: str, question: dict[str, Any] | None = None) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_S)
    try:
        connection.request("POST" if question else "GET", path, json.dumps(question) if question else None)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_the_fleet_answers_as_the_model_says_and_tells_what_was_cached(fleet: list[int]) -> None:
    port = fleet[0]
    messages = asked(traffic(1, 10, 5)[0], 0)
    question = {"model": "m", "messages": [{"role": role, "content": content} for role, content in messages]}
    read = prompt(messages)
    tokens = len(read) // TOKEN_BYTES
    began = time.monotonic()
    usages = []
    for _time in range(2):
        body = page(port, "/v1/chat/completions", question).decode()
        events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
        assert "".join(event["choices"][0]["delta"]["content"] for event in events) == answer(read)
        lengths = [len(event["choices"][0]["delta"]["content"]) // TOKEN_BYTES for event in events]
        assert lengths[0] == 1  # the first token does not wait for others
        assert set(lengths[1:-1]) <= {TOKENS_PER_EVENT}
        usages.append(events[-1]["usage"])
    least = tokens / FLEET[0].prefill_tps + 2 * FLEET[0].step_s * (usages[0]["completion_tokens"] - 1)
    assert time.monotonic() - began >= least
    assert [one["prompt_tokens"] for one in usages] == [tokens, tokens]
    assert [one["prompt_tokens_details"]["cached_tokens"] for one in usages] == [
        0,
        (tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS,
    ]


def test_the_gateway_reads_the_load_of_a_simulated_engine(fleet: list[int]) -> None:
    load = read_load(NAMES["vllm"], page(fleet[1], "/metrics"), 0.0)
    assert load is not None
    assert (load.running, load.waiting, load.kv_usage, load.work) == (0, 0, 0, 0)
