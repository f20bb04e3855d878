# SPDX-License-Identifier: Apache-2.0
"""From start to ready: the simulator loads as vLLM does."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.engines_programs.programs import SIM, Program


def refused(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_while_loading_the_port_is_taken_and_connections_are_refused(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--load-never")
    sim.wait_for_log("Loading m")
    assert refused(sim.port)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", sim.port))


def test_after_loading_health_is_empty_and_every_served_name_is_listed(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--load-seconds", "0.2", "--served-model-name", "chat", "assistant").ready()
    assert sim.ask("GET", "/health") == (200, "")
    status, models = sim.ask("GET", "/v1/models")
    assert status == 200
    assert [model["id"] for model in models["data"]] == ["chat", "assistant"]
    assert {model["owned_by"] for model in models["data"]} == {"llmgw-sim"}


def test_a_failed_load_says_why_and_exits_with_1(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--fail-load", "0.05")
    assert sim.exit_status() == 1
    assert any("ERROR" in line and "out of memory" in line for line in sim.log)


def test_sigterm_while_loading_ends_it_at_once(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--load-never")
    sim.wait_for_log("Loading m")
    sim.terminate()
    assert sim.exit_status() == 0


def test_a_port_that_somebody_listens_on_is_an_error(start: Callable[..., Program]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        second = start(SIM, "--model", "m", "--port", str(other.getsockname()[1]))
        assert second.exit_status() == 1
    assert any("cannot listen on 127.0.0.1:" in line for line in second.log)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--model", "m", "--max-model-len", "2000", "--kv-tokens", "1000"], "does not fit into --kv-tokens 1000"),
        (["--model", "m", "--kv-tokens", "15"], "does not fit into --kv-tokens 15"),
        (["--model", "m", "--tensor-parallel", "2", "--api-key=secret"], "unknown: --tensor-parallel, --api-key\n"),
        (["--model", "m", "stray"], "unknown: words that belong to no option"),
        (["--model", "m", "--api-key-file", "/nowhere"], "--api-key-file: "),
        (["--model", "m", "--load-seconds", "nan"], "nan"),
        (["--model", "m", "--max-num-seqs", "0"], "0 is less than 1"),
        ([], "--model"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    start: Callable[..., Program], options: list[str], complaint: str
) -> None:
    sim = start(SIM, *options)
    assert sim.exit_status() == 2
    assert complaint in "".join(sim.log)


def test_it_says_its_version_and_that_it_is_a_simulator() -> None:
    said = subprocess.run(
        [sys.executable, "-B", SIM, "--version"], capture_output=True, text=True, check=True, timeout=20
    )
    assert said.stdout.startswith("llmgw-sim 1.")
    assert "simulator" in said.stdout


def test_it_runs_on_the_oldest_python_of_a_node(start: Callable[..., Program]) -> None:
    python = Path.home() / ".pyenv/versions"
    oldest = sorted(python.glob("3.8.*/bin/python3"))
    if not oldest:
        pytest.skip("no Python 3.8 on this machine")
    sim = start(
        SIM, "--model", "m", "--ttft-ms", "1", "--shutdown-timeout", "5", "--faults", python=str(oldest[0])
    ).ready()
    status, answer = sim.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]})
    assert status == 200
    assert answer["usage"]["completion_tokens"] == 24
    with sim.stream("/v1/completions", {"prompt": "hello", "max_tokens": 5}) as response:
        sim.terminate()
        assert b"[DONE]" in response.read()
    assert sim.exit_status() == 0
