# SPDX-License-Identifier: Apache-2.0
"""A request's body as it comes, within the limits of one and of all, and what a choice may know of it (G1, G5)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from llmgw.gateway.routing import prefix
from llmgw.gateway.routing.choose import READS_PROMPT
from llmgw.gateway.routing.cost import Ask
from llmgw.gateway.routing.prompt_tokens import BYTES_PER_TOKEN, estimated_tokens
from llmgw.gateway.wire import refusal as refusals
from llmgw.gateway.wire.body import Asked, read_body
from llmgw.gateway.wire.multipart import Form, read_form
from llmgw.gateway.wire.refusal import Refusal

if TYPE_CHECKING:
    from llmgw.gateway.admit.admission import ByteBudget
    from llmgw.gateway.table import LiveRoute
    from llmgw.gateway.wire.paths import Kind


SMALL = 1024
JOINED = 64 * 1024
"""Pieces below the one size join the piece before, up to the other: a body of a million pieces holds what it counts."""


class Reading:
    """The body of one request. `begun`: its turn has come; `whole`: nothing more comes; `refused`: why it is not taken.

    What it holds counts in the budget of all bodies until `release`.
    """

    __slots__ = ("_budget", "_held", "_limit", "_pieces", "begun", "refused", "size", "whole")

    def __init__(self, budget: ByteBudget, limit: int) -> None:
        self._budget = budget
        self._limit = limit
        self._pieces: list[bytes | bytearray] = []
        self._held = 0
        self.size = 0
        self.begun = self.whole = False
        self.refused: Refusal | None = None

    def take(self, data: bytes) -> Refusal | None:
        """Takes some of it, or says why not."""
        self.size += len(data)
        if self.size > self._limit:
            return refusals.too_large(self._limit)
        if not self._budget.take(len(data)):
            return refusals.BODIES_BUSY
        self._held += len(data)
        pieces = self._pieces
        if pieces and len(data) < SMALL:
            last = pieces[-1]
            if len(last) < JOINED:
                joined = last if isinstance(last, bytearray) else bytearray(last)
                joined += data
                pieces[-1] = joined
                return None
        pieces.append(data)
        return None

    def refuse(self, why: Refusal) -> None:
        """It is not taken; what came of it is let go."""
        self.refused = why
        self._pieces = []
        self.release()

    def read(self, kind: Kind, content_type: bytes) -> Asked | Form | Refusal:
        """What the whole body asks for."""
        pieces, self._pieces = self._pieces, []
        first = pieces[0] if pieces else b""
        data = first if len(pieces) == 1 and isinstance(first, bytes) else b"".join(pieces)
        return read_body(data) if kind.body == "json" else read_form(content_type, data)

    def release(self) -> None:
        """Nothing of it is held any more."""
        self._budget.give(self._held)
        self._held = 0


def ask_for(asked: Asked | Form, kind: Kind, route: LiveRoute, session: bytes | None) -> Ask:
    """What a choice among the route's endpoints may know. The prompt is only hashed where that may decide something."""
    if isinstance(asked, Form):
        return Ask(asked.text_bytes // BYTES_PER_TOKEN, session=session, streams=True)
    tokens = estimated_tokens(asked.data)
    ask = Ask(tokens, session=session, max_tokens=asked.max_tokens, streams=asked.stream or not kind.cached)
    if kind.cached and route.spec.policy in READS_PROMPT and len(route.endpoints) > 1:
        pieces = asked.prompt(kind.prompt)
        ask.chain = prefix.chain(hash(asked.model), pieces)
        ask.home = prefix.home(zlib.crc32(asked.model.encode()), pieces)
    return ask
