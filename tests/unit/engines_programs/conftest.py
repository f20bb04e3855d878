# SPDX-License-Identifier: Apache-2.0
"""Fixtures: engine programs that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import openai
import pytest

from tests.unit.engines_programs.programs import QUICK, SIM, WAIT_S, Program


@pytest.fixture
def start() -> Iterator[Callable[..., Program]]:
    """Starts a program with options."""
    with ExitStack() as stack:

        def started(program: Path, *args: str, **more: object) -> Program:
            running = Program(program, *args, **more)  # type: ignore[arg-type]
            stack.callback(running.end)
            return running

        yield started


@pytest.fixture
def start_sim(start: Callable[..., Program]) -> Callable[..., Program]:
    """Starts a quick simulator of the model `m` with /sim, and more options."""

    def started(*args: str, **more: object) -> Program:
        return start(SIM, *QUICK, *args, **more)

    return started


@pytest.fixture
def sim(start_sim: Callable[..., Program]) -> Program:
    """A quick simulator that serves the model `m`."""
    return start_sim().ready()


@pytest.fixture(scope="module")
def shared_sim() -> Iterator[Program]:
    """A quick simulator for all tests of a module: for those that leave nothing behind which another could see."""
    running = Program(SIM, *QUICK)
    try:
        yield running.ready()
    finally:
        running.end()


@pytest.fixture
def client_of() -> Iterator[Callable[..., openai.OpenAI]]:
    """Makes the official client for a program; it does not retry."""
    with ExitStack() as stack:

        def made(program: Program, key: str = "none") -> openai.OpenAI:
            url = f"http://127.0.0.1:{program.port}/v1"
            return stack.enter_context(openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=WAIT_S))

        yield made
