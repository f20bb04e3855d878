# SPDX-License-Identifier: Apache-2.0
"""Child processes that are kept running. The workers here are real processes, of a few lines each."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from llmgw.errors import LlmgwError
from llmgw.gateway.processes import supervisor as module
from llmgw.gateway.processes.child import Child, Ends, Stage, how_it_ended
from llmgw.gateway.processes.handover import Handover
from llmgw.gateway.processes.supervisor import Supervisor

WAIT_S = 30.0
WORKER = """
import os, pathlib, socket, sys
folder = pathlib.Path(sys.argv[1])
if (folder / "broken").exists():
    sys.exit(3)
channel = socket.socket(fileno=int(sys.argv[2]))
for number in sys.argv[3].split(","):
    socket.socket(fileno=int(number)).listen()
serving = b"\\x81\\xa4type\\xa7serving"
channel.sendall(len(serving).to_bytes(4, "big") + serving)
while True:
    data = channel.recv(4096)
    if not data or b"retire" in data or b"drain" in data:
        sys.exit(0)
"""

structlog.configure(logger_factory=structlog.stdlib.LoggerFactory(), wrapper_class=structlog.stdlib.BoundLogger)


def running(work: Callable[[Supervisor, Path], Coroutine[Any, Any, None]], folder: Path, size: int = 2) -> None:
    """Runs `work` with a supervisor whose workers serve."""

    async def whole() -> None:
        async with supervising(folder, size) as supervisor:
            await work(supervisor, folder)

    asyncio.run(whole())


@asynccontextmanager
async def supervising(folder: Path, size: int) -> AsyncIterator[Supervisor]:
    def command(ends: Ends, number: int) -> Sequence[str]:
        del number
        listeners = ",".join(map(str, ends.listeners))
        return [sys.executable, "-S", "-E", "-c", WORKER, str(folder), str(ends.channel), listeners]

    first = bind()
    port = first.getsockname()[1]
    supervisor = Supervisor(command, lambda: bind(port), lambda _child, _message: None)
    try:
        await supervisor.start([first, *(bind(port) for _number in range(size - 1))])
        yield supervisor
    finally:
        async with asyncio.timeout(WAIT_S):
            await supervisor.drain()


def bind(port: int = 0) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not check():  # noqa: ASYNC110 - processes tell nobody
            await asyncio.sleep(0.01)


def pids(supervisor: Supervisor) -> set[int]:
    return {child.pid for child in supervisor.serving()}


def test_a_worker_that_is_killed_is_replaced_and_counted(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor, _folder: Path) -> None:
        victim, other = supervisor.serving()
        os.kill(victim.pid, signal.SIGKILL)
        await until(lambda: len(supervisor.serving()) == 2 and victim not in supervisor.serving())
        assert other in supervisor.serving()
        assert victim.stage is Stage.ENDED
        assert supervisor.restarts == 1

    running(work, tmp_path)


def test_one_that_cannot_start_is_tried_again_and_leaves_no_queue_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GIVE_UP_QUEUE_S", 0.2)

    async def work(supervisor: Supervisor, folder: Path) -> None:
        (folder / "broken").touch()
        victim, other = supervisor.serving()
        os.kill(victim.pid, signal.SIGKILL)
        slot = supervisor._slots[0]
        await until(lambda: slot.backoff.ends >= 2 and not slot.listeners)
        address = supervisor._slots[1].listeners[0].getsockname()
        for _number in range(20):
            socket.create_connection(address, timeout=WAIT_S).close()  # noqa: ASYNC210, RUF100 - all come to the other
        (folder / "broken").unlink()
        await until(lambda: len(supervisor.serving()) == 2)
        assert other in supervisor.serving()

    running(work, tmp_path)


def test_workers_that_cannot_start_at_all_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()

    async def work(_supervisor: Supervisor, _folder: Path) -> None:
        """Never comes about."""

    with pytest.raises(LlmgwError, match="before it took clients"):
        running(work, tmp_path)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_replacing_them_ends_each_after_the_next_one_serves(tmp_path: Path, size: int) -> None:
    async def work(supervisor: Supervisor, _folder: Path) -> None:
        before = pids(supervisor)
        least = len(before)

        async def watch() -> None:
            nonlocal least
            while True:
                least = min(least, len(supervisor.serving()))
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        await supervisor.replace(size)
        watching.cancel()
        assert least >= min(2, size)
        assert len(pids(supervisor)) == size
        assert not pids(supervisor) & before
        await until(lambda: len(supervisor.children()) == size)
        assert sum(len(slot.listeners) for slot in supervisor._slots) == max(size, 2)
        assert supervisor.restarts == 0

    running(work, tmp_path)


def test_where_the_new_one_does_not_start_the_old_ones_go_on(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor, folder: Path) -> None:
        before = pids(supervisor)
        (folder / "broken").touch()
        with pytest.raises(LlmgwError):
            await supervisor.replace(2)
        assert pids(supervisor) == before
        assert len(supervisor.children()) == 2

    running(work, tmp_path)


def test_one_that_hangs_is_told_of_and_at_last_ended(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor, _folder: Path) -> None:
        first = supervisor.serving()[0]
        now = asyncio.get_running_loop().time()
        supervisor.look(now)
        assert supervisor.hanging == 0
        supervisor.look(now + module.HANGS_AFTER_S + 1)
        assert supervisor.hanging == 2
        assert first.stage is Stage.SERVING
        supervisor.look(now + module.KILL_AFTER_S + 1)
        await until(lambda: first.stage is Stage.ENDED)
        await until(lambda: len(supervisor.serving()) == 2)

    running(work, tmp_path)


def test_new_code_goes_on_with_the_workers_of_the_old_one(tmp_path: Path) -> None:
    async def work(supervisor: Supervisor, _folder: Path) -> None:
        before = pids(supervisor)
        supervisor._retired["+endpoint\ta\tgood"] = 7
        slots, children, retired = await supervisor.hand_over()
        adopted = Supervisor(supervisor._command, supervisor._bind, lambda _child, _message: None)
        await adopted.adopt(Handover(slots=slots, children=children, admin=-1, retired=retired, restarts=4))
        assert pids(adopted) == before
        assert adopted.restarts == 4
        assert adopted.numbers() == {"+endpoint\ta\tgood": 7}
        await adopted.drain()
        assert not adopted.children()
        await until(lambda: not supervisor.children())

    async def whole() -> None:
        async with supervising(tmp_path, 2) as supervisor:
            _forget_the_ends(supervisor)
            await work(supervisor, tmp_path)

    asyncio.run(whole())


def _forget_the_ends(supervisor: Supervisor) -> None:
    """Both supervisors live in one process here, where only one of them can be told how a child ended."""

    def ended(child: Child) -> None:
        asyncio.get_running_loop().remove_reader(child._pidfd)
        child.stage = Stage.ENDED
        assert child._channel is not None
        child._channel.close()
        supervisor._ended(child, 0)

    for child in supervisor.children():
        loop = asyncio.get_running_loop()
        loop.remove_reader(child._pidfd)
        loop.add_reader(child._pidfd, ended, child)


@pytest.mark.parametrize(
    ("status", "words"), [(0, "with status 0"), (3, "with status 3"), (-9, "by SIGKILL"), (-11, "by SIGSEGV")]
)
def test_an_end_is_told_in_words(status: int, words: str) -> None:
    assert how_it_ended(status) == words
