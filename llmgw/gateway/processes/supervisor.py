# SPDX-License-Identifier: Apache-2.0
"""Keeps the worker processes running: starts them, replaces one that ended or hangs, and all of them one by one.

The sockets that clients connect to belong to this process, one set a worker. A worker that goes leaves its socket to
the next one: who is in the queue of it waits for that, and is not refused.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable

import structlog

from llmgw.errors import LlmgwError
from llmgw.gateway.processes import sharing
from llmgw.gateway.processes.backoff import Backoff
from llmgw.gateway.processes.channel import Cut, Drain, Message, Retire, ToWorker
from llmgw.gateway.processes.child import Child, MakeCommand, Stage, how_it_ended
from llmgw.gateway.processes.handover import HandedChild, HandedSlot, Handover, inherit, keep
from llmgw.gateway.processes.sharing import Numbers

START_LIMIT_S = 60.0
"""For a worker to take clients; imports on a cold and busy disk take their time."""
HANGS_AFTER_S = 5.0
"""Without a sign of life, which comes twenty times a second."""
KILL_AFTER_S = 60.0
AGAIN_S = 1.0
GIVE_UP_QUEUE_S = 1.0
"""A worker that is not started again for longer than this leaves no queue: clients are better off at the others."""

log = structlog.get_logger()


class Slot:
    """One place for a worker: its sockets, who has it now, and how often that one ended."""

    __slots__ = ("backoff", "child", "listeners", "number", "starter")

    def __init__(self, number: int, listeners: list[socket.socket]) -> None:
        self.number = number
        self.listeners = listeners
        self.child: Child | None = None
        self.backoff = Backoff()
        self.starter: asyncio.Task[None] | None = None


class Supervisor:
    """The workers of one gateway.

    `bind` makes one more socket at the same address. `heard` gets what workers say. `restarts`: how many ended without
    having been told to.
    """

    def __init__(
        self,
        command: MakeCommand,
        bind: Callable[[], socket.socket],
        heard: Callable[[Child, Message], None],
    ) -> None:
        self._command = command
        self._bind = bind
        self._heard = heard
        self._slots: list[Slot] = []
        self._others: list[Child] = []
        """Those that retire, and those that are not in their slot yet."""
        self._retired: dict[str, float] = {}
        self._stopping = False
        self._hanging: set[Child] = set()
        self.restarts = 0

    # --- looking ---

    @property
    def size(self) -> int:
        """How many workers there should be."""
        return len(self._slots)

    def children(self) -> list[Child]:
        """All worker processes, those that retire too."""
        return [*(slot.child for slot in self._slots if slot.child is not None), *self._others]

    def bound(self) -> socket.socket:
        """One of the sockets that clients connect to."""
        return next(one for slot in self._slots for one in slot.listeners)

    def serving(self) -> list[Child]:
        """Those that take new clients."""
        return [slot.child for slot in self._slots if slot.child is not None and slot.child.stage is Stage.SERVING]

    @property
    def hanging(self) -> int:
        """How many gave no sign of life lately."""
        return len(self._hanging)

    def hangs(self, child: Child) -> bool:
        """Whether it gave no sign of life lately."""
        return child in self._hanging

    def numbers(self, *, live: bool = False) -> dict[str, float]:
        """The sums over all workers; with `live` only of what is in flight, and else with the totals of those that
        have ended.
        """
        readings: list[Numbers] = [child.reader.read(live=live) for child in self.children()]
        return sharing.total(readings if live else [self._retired, *readings])

    def generation(self) -> int | None:
        """The oldest generation that a worker serves by; None while none serves, or one has no routes."""
        numbers = [child.reader.read(live=True) for child in self.children() if child.stage is not Stage.STARTING]
        found = [int(one.get(sharing.GENERATION, 0)) for one in numbers]
        return (min(found) or None) if found else None

    # --- doing ---

    async def start(self, bound: Iterable[socket.socket]) -> None:
        """Starts one worker for each socket. Raises LlmgwError `worker-failed` when one does not come up."""
        self._slots = [Slot(number, [one]) for number, one in enumerate(bound)]
        found = await asyncio.gather(*(self._fill(slot) for slot in self._slots), return_exceptions=True)
        for error in found:
            if error is not None:
                raise error

    async def adopt(self, handover: Handover) -> None:
        """Goes on with the workers that the code before has started."""
        self._retired = dict(handover.retired)
        self.restarts = handover.restarts
        by_pid: dict[int, Child] = {}
        for handed in handover.children:
            child = by_pid[handed.pid] = Child(handed.number, self._heard, self._ended, handed.cells)
            self._others.append(child)
            await child.adopt(handed)
        for slot in handover.slots:
            self._slots.append(Slot(slot.number, [socket.socket(fileno=keep(one)) for one in slot.listeners]))
            mine = by_pid.get(slot.pid)
            if mine is not None and mine.stage is not Stage.ENDED:
                self._slots[-1].child = mine
                self._others.remove(mine)

    async def hand_over(self) -> tuple[list[HandedSlot], list[HandedChild], dict[str, float]]:
        """What new code needs to go on: places, workers, and the totals of those that have ended. A worker that does
        not listen is ended: nobody could reach it.
        """
        await self._stop_starting()
        children: list[HandedChild] = []
        for child in self.children():
            handed = await child.hand_over() if child.stage is not Stage.STARTING else None
            if handed is not None:
                children.append(handed)
                continue
            child.kill()
            while child.stage is not Stage.ENDED:  # noqa: ASYNC110 - a killed process ends at once
                await asyncio.sleep(0.01)
        slots = [
            HandedSlot(
                slot.number,
                [inherit(one.fileno()) for one in slot.listeners],
                0 if slot.child is None else slot.child.pid,
            )
            for slot in self._slots
        ]
        return slots, children, self._retired

    def go_on(self) -> None:
        """Nothing is handed over after all."""
        self._stopping = False
        for child in self.children():
            child.go_on()
        self._fill_empty()

    async def replace(self, size: int) -> None:
        """Replaces all workers one by one, so that there are `size` then. Raises LlmgwError `worker-failed` when a new
        one does not come up; the old one goes on then, and so do those after it.
        """
        for number in range(len(self._slots), size):
            self._slots.append(Slot(number, [self._bind()]))
        while len(self._slots) > size:
            gone = self._slots.pop()
            # Nobody in the queue of these sockets is turned away: another worker takes them over.
            self._slots[gone.number % size].listeners += gone.listeners
            if gone.starter is not None:
                gone.starter.cancel()
            if gone.child is not None:
                self._others.append(gone.child)
        try:
            for slot in self._slots:
                if slot.starter is not None:
                    slot.starter.cancel()
                await self._fill(slot)
        finally:
            self._fill_empty()
        for child in self._others:
            if child.stage is Stage.SERVING:
                self._retire(child)

    def tell(self, message: ToWorker) -> None:
        """Tells all workers."""
        for child in self.children():
            child.say(message)

    async def drain(self) -> None:
        """Lets all workers finish what they have, and returns when the last one has ended."""
        await self._stop_starting()
        for slot in self._slots:
            for one in slot.listeners:
                one.close()
        self.tell(Drain())
        while self.children():
            await asyncio.sleep(0.02)
            for child in self.children():
                if child.stage is Stage.STARTING:
                    child.kill()

    def cut(self) -> None:
        """Ends what is in flight."""
        self.tell(Cut())

    def kill(self) -> None:
        """Ends all workers at once."""
        for child in self.children():
            child.kill()

    def look(self, now: float) -> None:
        """Finds workers that hang; one that does so for long is ended, and replaced as any that ends."""
        hanging = {child for child in self.children() if child.beat_age_s(now) > HANGS_AFTER_S}
        hanging = {child for child in hanging if child.stage is not Stage.STARTING}
        for child in hanging - self._hanging:
            log.error("a worker hangs: its requests stand still", worker=child.number, pid=child.pid)
        for child in self._hanging - hanging:
            if child.stage is not Stage.ENDED:
                log.info("the worker goes on", worker=child.number, pid=child.pid)
        self._hanging = hanging
        for child in hanging:
            if child.beat_age_s(now) > KILL_AFTER_S:
                log.error("the worker that hangs is ended and replaced", worker=child.number, pid=child.pid)
                child.kill()

    def forget(self, known: Callable[[Numbers], dict[str, float]]) -> None:
        """Keeps of the totals of workers that have ended what `known` leaves."""
        self._retired = known(self._retired)

    # --- inside ---

    async def _stop_starting(self) -> None:
        self._stopping = True
        starters = [slot.starter for slot in self._slots if slot.starter is not None]
        for starter in starters:
            starter.cancel()
        await asyncio.gather(*starters, return_exceptions=True)

    def _fill_empty(self) -> None:
        """Sees to it that each place without a worker gets one."""
        loop = asyncio.get_running_loop()
        for slot in self._slots:
            if slot.child is None and not self._stopping and (slot.starter is None or slot.starter.done()):
                slot.starter = loop.create_task(self._refill(slot, AGAIN_S))

    async def _fill(self, slot: Slot) -> None:
        """Puts a new worker into the slot; the one that is there retires when the new one takes clients."""
        if not slot.listeners:
            slot.listeners = [self._bind()]
        child = Child(slot.number, self._heard, self._ended)
        self._others.append(child)
        try:
            await child.start(self._command, slot.listeners)
            async with asyncio.timeout(START_LIMIT_S):
                await asyncio.shield(child.serving)
            if child.stage is Stage.ENDED:
                raise asyncio.CancelledError  # noqa: TRY301 - it had hardly begun
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            ended = child.stage is Stage.ENDED
            if child.pid == 0:
                self._others.remove(child)
            child.kill()
            if isinstance(error, asyncio.CancelledError) and not ended:
                raise
            why = "ended before it took clients" if ended else f"took no clients within {START_LIMIT_S:g} s"
            raise LlmgwError(
                "worker-failed", f"worker {slot.number} {why}", fix="the gateway's log has its own words just before"
            ) from error
        before, slot.child = slot.child, child
        self._others.remove(child)
        if before is not None:
            self._others.append(before)
            self._retire(before)

    def _retire(self, child: Child) -> None:
        child.stage = Stage.RETIRING
        child.say(Retire())

    def _ended(self, child: Child, status: int) -> None:
        self._retired = sharing.total([self._retired, sharing.kept(child.reader.read())])
        self._hanging.discard(child)
        if child in self._others:
            self._others.remove(child)
            return
        slot = next(slot for slot in self._slots if slot.child is child)
        slot.child = None
        if self._stopping:
            return
        self.restarts += 1
        loop = asyncio.get_running_loop()
        wait_s = slot.backoff.ended(loop.time() - child.started_at)
        log.error(
            "a worker ended, its connections are cut; another one is started",
            worker=slot.number,
            pid=child.pid,
            ended=how_it_ended(status),
            in_seconds=wait_s,
        )
        slot.starter = loop.create_task(self._refill(slot, wait_s))

    async def _refill(self, slot: Slot, wait_s: float) -> None:
        """Fills the slot again, as often as it takes."""
        while not self._stopping:
            if wait_s > GIVE_UP_QUEUE_S:
                for one in slot.listeners:
                    one.close()
                slot.listeners = []
            await asyncio.sleep(wait_s)
            try:
                await self._fill(slot)
            except LlmgwError as error:
                wait_s = slot.backoff.ended(0.0)
                log.error("the worker does not start", problem=str(error), again_in_seconds=wait_s)  # noqa: TRY400
            else:
                return
