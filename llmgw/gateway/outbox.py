# SPDX-License-Identifier: Apache-2.0
"""Sending to a client without a task: ASGI's `send` is stepped by hand, and only a slow client makes it wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from llmgw.gateway.asgi import Message, Send


class Outbox:
    """Messages to one client, in order. `blocked`: its buffer is full, and what is put waits here.

    `on_free` is called when all that waited is sent. `on_broken` gets what `send` raised; nothing is sent after that.
    Whoever fills an outbox stops filling it while it is blocked, so it holds a message or two at most (G6).
    """

    __slots__ = ("_on_broken", "_on_free", "_send", "_waiting", "blocked", "broken")

    def __init__(self, send: Send, on_free: Callable[[], None], on_broken: Callable[[Exception], None]) -> None:
        self._send = send
        self._on_free = on_free
        self._on_broken = on_broken
        self._waiting: deque[Message] = deque()
        self.blocked = False
        self.broken = False

    def put(self, message: Message) -> None:
        """Sends it now, or after those that wait."""
        if self.blocked:
            self._waiting.append(message)
        elif not self.broken:
            self._step(self._send(message))

    def close(self) -> None:
        """Nothing is sent or called any more. Its maker calls this, or the two would keep one another alive."""
        self.broken = True
        self._waiting.clear()
        self._on_free = self._on_broken = _nothing

    def _step(self, sending: Coroutine[Any, Any, None]) -> None:
        """Runs `sending` to its end or to its next wait; a wait is a future that it yields."""
        try:
            future = sending.send(None)
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001 - whatever a server's send raises ends this one answer, and no other
            self._break(error)
            return
        self.blocked = True
        future.add_done_callback(lambda _done: self._go_on(sending))

    def _go_on(self, sending: Coroutine[Any, Any, None]) -> None:
        self.blocked = False
        self._step(sending)
        while self._waiting and not self.blocked and not self.broken:
            self._step(self._send(self._waiting.popleft()))
        if not self.blocked and not self.broken:
            self._on_free()

    def _break(self, error: Exception) -> None:
        on_broken = self._on_broken
        self.close()
        on_broken(error)


def _nothing(*_: object) -> None:
    """Where callbacks went that are not wanted any more."""
