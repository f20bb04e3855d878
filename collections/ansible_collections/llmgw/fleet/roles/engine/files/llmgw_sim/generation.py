# SPDX-License-Identifier: Apache-2.0
"""Running one generation for any of the APIs: does it fit, and which words does it say."""

from __future__ import annotations

import asyncio
from typing import Callable

from llmgw_sim import answers
from llmgw_sim.engine import Engine
from llmgw_sim.faults import Faults
from llmgw_sim.web import Connection, bad_request, server_error


class Generator:
    """The engine, as an API uses it. `faults` gives those that are in force."""

    def __init__(self, engine: Engine, max_model_len: int, faults: Callable[[], Faults]) -> None:
        self._engine = engine
        self._max_model_len = max_model_len
        self._faults = faults

    def check(self, prompt: list[str], count: int) -> None:
        """Raises ApiError 400 for what is longer than the model's context."""
        if len(prompt) + count > self._max_model_len:
            raise bad_request(
                f"This model's maximum context length is {self._max_model_len} tokens. However, you requested "
                f"{count} output tokens and your prompt contains {len(prompt)} input tokens.",
                "max_tokens",
            )

    async def say(
        self, prompt: list[str], count: int, reason: str, connection: Connection, said: Callable[[str], None]
    ) -> int:
        """Calls `said` with each word at the engine's pace; returns how many prompt tokens were cached."""

        def emit(index: int) -> None:
            self._break_at(index, connection)
            said(answers.word(prompt, index))

        return await self._engine.generate(prompt, count, reason, emit)

    async def think(self, prompt: list[str]) -> None:
        """Takes the time of one token: what an answer without any text costs."""
        await self._engine.generate(prompt, 1, "stop", lambda _index: None)

    def _break_at(self, index: int, connection: Connection) -> None:
        """Carries out the faults that strike before token `index`."""
        faults = self._faults()
        if index == faults.disconnect_after_chunks:
            connection.break_off()
            raise asyncio.CancelledError
        if index == faults.error_after_chunks:
            raise server_error("A fault asked for by POST /sim/faults.")
