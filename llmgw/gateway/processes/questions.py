# SPDX-License-Identifier: Apache-2.0
"""What the control process can ask of a worker, and what the worker says, in msgpack."""

from __future__ import annotations

from typing import Final

import msgspec

from llmgw.gateway.dataplane import DataPlane

FIND: Final = "find"
"""The newest request of this id whose routing is kept."""
RECENT: Final = "recent"
"""The newest of them: how many, and of which service, after a space; none is all."""
CLEAR: Final = "clear"
"""Lets the endpoint of this id take requests again, whatever earlier ones showed."""


def answer(plane: DataPlane, name: str, argument: str) -> bytes | None:
    """The answer; None where there is none, and for a question of another version."""
    if name == FIND:
        found = plane.explanations.find(argument)
        return None if found is None else msgspec.msgpack.encode(found)
    if name == RECENT:
        limit, _space, service = argument.partition(" ")
        return msgspec.msgpack.encode(plane.explanations.recent(int(limit), service or None))
    endpoint = plane.table.endpoints.get(argument) if name == CLEAR else None
    if endpoint is None:
        return None
    plane.table.clear(endpoint)
    return msgspec.msgpack.encode(True)  # noqa: FBT003 - it was done
