# SPDX-License-Identifier: Apache-2.0
"""One worker process as the control process sees it: started, listened to, watched until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from llmgw.gateway.processes import cells
from llmgw.gateway.processes.channel import Channel, Message, Serving, ToWorker
from llmgw.gateway.processes.handover import HandedChild, inherit, keep

HAND_OVER_S = 5.0
"""For a worker to read what it was told; one that takes longer hangs."""


class Stage(StrEnum):
    """Where a worker is in its life. `retiring`: another one has taken over, its clients are leaving."""

    STARTING = "starting"
    SERVING = "serving"
    RETIRING = "retiring"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Ends:
    """What a worker is handed, as numbers of open files: sockets to listen at, its channel, its cells."""

    listeners: tuple[int, ...]
    channel: int
    cells: int


MakeCommand = Callable[["Ends", int], Sequence[str]]
"""The words that start a worker by its number."""


class Child:
    """One worker process. `heard` gets its messages and `ended` its exit status, once; both with this child."""

    def __init__(
        self,
        number: int,
        heard: Callable[[Child, Message], None],
        ended: Callable[[Child, int], None],
        memory: int | None = None,
    ) -> None:
        self.number = number
        self.stage = Stage.STARTING
        self.started_at = asyncio.get_running_loop().time()
        self.serving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when it takes clients; cancelled when it ends before."""
        self.pid = 0
        self.problem: str | None = None
        """Why it does not serve by the newest bundle."""
        self._heard = heard
        self._ended = ended
        self._cells = cells.make() if memory is None else memory
        self.reader = cells.Reader(self._cells)
        self._channel: Channel | None = None
        self._pidfd = -1

    async def start(self, command: MakeCommand, listeners: Sequence[socket.socket]) -> None:
        """Runs it. What it says of itself comes later."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(0)
        with theirs, contextlib.ExitStack() as handed:
            ends = Ends(
                tuple(_hand(handed, one.fileno()) for one in listeners),
                _hand(handed, theirs.fileno()),
                _hand(handed, self._cells),
            )
            words = [*command(ends, self.number)]
            self.pid = _spawn(words)
        self._watch()
        await self._listen(ours)

    async def adopt(self, handed: HandedChild) -> None:
        """Goes on with a process that the code before has started."""
        keep(self._cells)
        self.pid = handed.pid
        self.stage = Stage(handed.stage)
        self.started_at = handed.started_at
        self.problem = handed.problem
        if self.stage is not Stage.STARTING:
            self.serving.set_result(None)
        self._watch()
        await self._listen(socket.socket(fileno=keep(handed.channel)), handed.unread)

    async def hand_over(self) -> HandedChild | None:
        """What new code needs to adopt it. None: it does not listen, and cannot be handed over."""
        stopped = None if self._channel is None else await self._channel.stop(HAND_OVER_S)
        if stopped is None:
            return None
        end, unread = stopped
        return HandedChild(
            number=self.number,
            pid=self.pid,
            stage=self.stage.value,
            channel=inherit(end),
            cells=inherit(self._cells),
            started_at=self.started_at,
            unread=unread,
            problem=self.problem,
        )

    def go_on(self) -> None:
        """It is not handed over after all."""
        if self._channel is not None:
            self._channel.go_on()

    def say(self, message: ToWorker) -> bool:
        """Tells it; False when it cannot hear."""
        return self._channel is not None and self._channel.say(message)

    def beat_age_s(self, now: float) -> float:
        """Seconds since it last said that it lives."""
        return now - max(self.reader.beat, self.started_at)

    def kill(self) -> None:
        """Ends it now, and with it all that it has in flight."""
        if self._pidfd >= 0:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def _listen(self, end: socket.socket, unread: bytes = b"") -> None:
        self._channel = await Channel.over(end, self._hear, lambda: None, unread)
        if self.stage is Stage.ENDED:  # meanwhile
            self._channel.close()

    def _hear(self, message: Message) -> None:
        if isinstance(message, Serving) and self.stage is Stage.STARTING:
            self.stage = Stage.SERVING
            self.serving.set_result(None)
        self._heard(self, message)

    def _watch(self) -> None:
        self._pidfd = os.pidfd_open(self.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._has_ended)

    def _has_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        _pid, status = os.waitpid(self.pid, 0)
        self.stage = Stage.ENDED
        if not self.serving.done():
            self.serving.cancel()
        if self._channel is not None:
            self._channel.close()
        try:
            self._ended(self, os.waitstatus_to_exitcode(status))
        finally:
            self.reader.close()
            os.close(self._cells)


def _spawn(words: list[str]) -> int:
    """Runs a program, and returns its number.

    It gets a group of its own: what a terminal sends to the whole group is for the control process to pass on.
    """
    return os.posix_spawn(words[0], words, os.environ, setpgroup=0, setsigmask=())


def _hand(handed: contextlib.ExitStack, descriptor: int) -> int:
    """A copy of an open file that a new process gets, closed here afterwards."""
    copy = os.dup(descriptor)
    handed.callback(os.close, copy)
    os.set_inheritable(copy, True)  # noqa: FBT003
    return copy


def how_it_ended(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"with status {status}"
    with contextlib.suppress(ValueError):
        return f"by {signal.Signals(-status).name}"
    return f"by signal {-status}"
