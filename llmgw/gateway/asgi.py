# SPDX-License-Identifier: Apache-2.0
"""Names for ASGI's three arguments. `Send` is a coroutine function, because the outbox steps it without a task."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

Message = dict[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Message]]
Send = Callable[[Message], Coroutine[Any, Any, None]]
RawHeaders = list[tuple[bytes, bytes]]
