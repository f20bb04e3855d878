# SPDX-License-Identifier: Apache-2.0
"""Several nodes as vLLM has them: rank 0 serves when all are there, and nobody notices who goes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.unit.engines_programs.programs import Program, free_port, until

StartSim = Callable[..., Program]


@pytest.fixture
def meeting() -> tuple[str, ...]:
    return ("--nnodes", "3", "--master-addr", "127.0.0.1", "--master-port", str(free_port()))


def follower(start_sim: StartSim, meeting: tuple[str, ...], rank: int) -> Program:
    return start_sim(*meeting, "--node-rank", str(rank), "--headless")


def test_rank_0_serves_once_all_ranks_are_there_in_any_order(start_sim: StartSim, meeting: tuple[str, ...]) -> None:
    second = follower(start_sim, meeting, 2)
    leader = start_sim(*meeting)
    second.wait_for_log("rank 2 joined")
    with pytest.raises(ConnectionRefusedError):
        leader.ask("GET", "/health")
    first = follower(start_sim, meeting, 1)
    leader.ready()
    assert leader.ask("POST", "/v1/completions", {"prompt": "hello", "max_tokens": 2})[0] == 200
    for one in (first, second):
        with pytest.raises(ConnectionRefusedError):
            one.ask("GET", "/health")


def test_when_a_follower_is_gone_rank_0_is_healthy_and_answers_nothing(
    start_sim: StartSim, meeting: tuple[str, ...]
) -> None:
    leader = start_sim(*meeting)
    others = [follower(start_sim, meeting, rank) for rank in (1, 2)]
    leader.ready()
    with leader.stream("/v1/completions", {"prompt": "hello", "max_tokens": 8000, "ignore_eos": True}) as response:
        assert response.readline().startswith(b"data: ")
        others[0].process.kill()

        def stands() -> bool:
            before = leader.state()["generated_tokens"]
            time.sleep(0.2)  # two hundred tokens
            return bool(leader.state()["generated_tokens"] == before)

        until("generation stands still", stands)
        assert leader.state()["running"] == 1
    assert leader.ask("GET", "/health") == (200, "")
    assert others[1].process.poll() is None


def test_a_follower_ends_at_once_when_it_is_told_to_and_stays_when_rank_0_is_gone(
    start_sim: StartSim, meeting: tuple[str, ...]
) -> None:
    leader = start_sim(*meeting)
    first, second = (follower(start_sim, meeting, rank) for rank in (1, 2))
    leader.ready()
    second.terminate()
    assert second.exit_status() == 0
    leader.process.kill()
    first.wait_for_log("hears no more of rank 0")
    first.terminate()
    assert first.exit_status() == 0


@pytest.mark.parametrize("options", [("--node-rank", "1"), ("--headless",), ("--nnodes", "2", "--node-rank", "2")])
def test_a_rank_that_makes_no_sense_is_refused(start_sim: StartSim, options: tuple[str, ...]) -> None:
    assert start_sim(*options).exit_status() == 2
