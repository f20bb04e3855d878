# SPDX-License-Identifier: Apache-2.0
"""An engine that runs is not restarted because nobody can tell now where it is installed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.model.node import Node
from llmgw.nodekit import contract
from tests.support.fleets import facts, profile, with_facts
from tests.support.launches import N1, big, member, started

TOLD = " --served-model-name org/Chat"
VERSIONED = "/opt/llmgw/engines/vllm/0.33.0/bin/vllm"
GUARD = "/usr/bin/env python3 -I /var/lib/llmgw/guard.py --secret VLLM_API_KEY=key -- "
FOUND = (contract.Engine("vllm", ("/opt/llmgw/engines/vllm/0.34.0/bin/vllm",), "0.34.0"),)
OTHERS = (contract.Engine("sim", ("/opt/llmgw/engines/sim/0.1.0/bin/llmgw-sim",), "0.1.0"),)


def running(line: str, engines: tuple[contract.Engine, ...] | None) -> Node:
    unit = contract.ObservedUnit(
        "llmgw-chat.0.0.service", replica="chat/0", rank=0, text=f"[Service]\nExecStart={line}\n"
    )
    return with_facts(N1, replace(facts("n1"), engines=engines, units=(unit,)))


def begins(on: Node, engine: str = "vllm") -> tuple[str, ...]:
    argv = started(big(engine), member(0, on, 8), on=on).argv
    return argv[: next(number for number, word in enumerate(argv) if word in {"serve", "--model-path"})]


@pytest.mark.parametrize("engines", [None, (), OTHERS])
@pytest.mark.parametrize("before", ["", GUARD])
def test_what_runs_keeps_its_command_while_the_facts_name_none(
    engines: tuple[contract.Engine, ...] | None, before: str
) -> None:
    assert begins(running(f"{before}{VERSIONED} serve org/big{TOLD}", engines)) == (VERSIONED,)


def test_what_the_facts_found_comes_first() -> None:
    on = running(f"{VERSIONED} serve org/big", FOUND)
    assert begins(on) == FOUND[0].command


def test_a_command_of_several_words_stays_whole() -> None:
    on = running("/opt/s/bin/python3 -m sglang.launch_server --model-path org/big", None)
    assert begins(on, "sglang") == ("/opt/s/bin/python3", "-m", "sglang.launch_server")


def test_signs_that_systemd_would_read_are_read_back() -> None:
    assert begins(running(f"/opt/100%%/$x/vllm serve org/big{TOLD}", None)) == ("/opt/100%/$x/vllm",)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ('"/opt/my engines/vllm" serve org/big', ("/opt/my engines/vllm",)),
        ("/opt/run-it org/big", ("/opt/run-it",)),
        ("/opt/run-it serve org/big", ("/opt/run-it", "serve")),
    ],
)
def test_a_quoted_command_and_one_without_a_subcommand_stay_too(line: str, command: tuple[str, ...]) -> None:
    on = running(f"{line}{TOLD} --model x", None)
    argv = started(big("vllm"), member(0, on, 8), on=on).argv
    assert argv[: argv.index("org/big")] == (*command, *(["serve"] if command[-1].endswith("vllm") else []))


def test_the_command_of_another_engine_is_none() -> None:
    on = running(f"{VERSIONED} serve org/big{TOLD}\n[X-Llmgw]\nEngine=sglang", None)
    assert begins(on) == ("/opt/llmgw/engines/vllm/current/bin/vllm",)


@pytest.mark.parametrize("line", ["/opt/my engine serve org/big", "/opt/run-it org/big", ""])
def test_a_command_that_cannot_be_read_back_is_as_for_a_new_replica(line: str) -> None:
    assert begins(running(line, None)) == ("/opt/llmgw/engines/vllm/current/bin/vllm",)


def test_an_engine_that_was_never_looked_for_is_started_by_its_usual_name() -> None:
    wanted = profile("cpu", "sim")
    on = replace(N1, facts=None)
    assert started(wanted, member(0, on, 0), on=on).argv[0] == "/opt/llmgw/engines/sim/current/bin/llmgw-sim"
