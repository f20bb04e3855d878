# SPDX-License-Identifier: Apache-2.0
"""How the control process becomes the code that is installed now: it runs itself anew, in place, and hands itself over.

The process keeps its number and its children; open files that are marked so go along. What the new code has to know is
in one of them. Signals wait meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import msgspec

from llmgw.errors import LlmgwError
from llmgw.gateway.processes.channel import HowItIs

VARIABLE = "LLMGW_GATEWAY_HANDOVER"
"""The number of the open file that holds a `Handover`."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
TRY_LIMIT_S = 60.0


class HandedChild(msgspec.Struct):
    """One worker. `channel`, `cells`: open files by number. `unread`: what came of a message that is not whole."""

    number: int
    pid: int
    stage: str
    channel: int
    cells: int
    started_at: float
    unread: bytes = b""
    problem: str | None = None


class HandedSlot(msgspec.Struct):
    """One place for a worker: its sockets by number, and the process that has it, or 0."""

    number: int
    listeners: list[int]
    pid: int = 0


class Handover(msgspec.Struct):
    """What the control process knows and its new code cannot find out. Fields are only ever added, with a default."""

    slots: list[HandedSlot]
    children: list[HandedChild]
    admin: int
    retired: dict[str, float] = {}
    restarts: int = 0
    endpoints: list[HowItIs] = []
    started_with: dict[str, str | int | None] = {}
    started_at: float = 0.0


def keep(descriptor: int) -> int:
    """An open file that came along, which no further process inherits from here on."""
    os.set_inheritable(descriptor, False)  # noqa: FBT003
    return descriptor


def inherit(descriptor: int) -> int:
    """A copy of an open file that goes along."""
    copy = os.dup(descriptor)
    os.set_inheritable(copy, True)  # noqa: FBT003
    return copy


async def try_new_code() -> None:
    """Loads what is installed now in a process of its own. Raises LlmgwError `new-code-broken`: it would not start."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import llmgw.cli.gateway, llmgw.cli.gateway_worker",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(TRY_LIMIT_S):
            _out, said = await process.communicate()
    except TimeoutError:
        said = f"it did not load within {TRY_LIMIT_S:g} s".encode()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode != 0:
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        raise LlmgwError(
            "new-code-broken",
            f"llmgw as it is installed now does not load: {last}",
            where=sys.prefix,
            fix="install a wheel that is whole, and reload again",
        )


def become(handover: Handover) -> None:
    """Runs this process's command anew with the handover. Does not return. Raises OSError when it cannot."""
    descriptor = os.memfd_create("llmgw-handover", 0)
    os.write(descriptor, msgspec.msgpack.encode(handover))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    os.environ[VARIABLE] = str(descriptor)
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - it is this very program
    finally:
        del os.environ[VARIABLE]
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(descriptor)


def take() -> Handover | None:
    """What the code before has handed over; None in a process that was started. Signals wait until `listen_again`."""
    number = os.environ.pop(VARIABLE, None)
    if number is None:
        return None
    with open(int(number), "rb") as file:  # noqa: PTH123 - by number
        file.seek(0)
        return msgspec.msgpack.decode(file.read(), type=Handover)


def listen_again() -> None:
    """Lets signals in, those too that came meanwhile."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
