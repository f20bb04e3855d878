# SPDX-License-Identifier: Apache-2.0
"""A world in which guards run without processes, sockets or a clock: their own code, with everything around it made up.

Time goes on in ticks. Hosts can be frozen and lose power, networks can be cut in either direction, engines can be deaf
to SIGTERM; systemd starts a guard again a second after it failed and kills what is left of its unit.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import guard

TICK_S = guard.TICK_S
RESTART_S = 1.0
STOP_TIMEOUT_S = 3.0


@dataclass
class Process:
    """An engine: `epoch` is that of the group in which it was started."""

    pid: int
    rank: int
    epoch: str
    deaf: bool
    status: int | None = None


@dataclass
class Wire:
    """One connection from a guard to a member: what is on its way, and who reads it."""

    reader: Running
    caller: guard.Caller
    lines: deque[str] = field(default_factory=deque)
    closed: bool = False


class Socket:
    """As much of a socket as a caller needs."""

    def __init__(self) -> None:
        self.number = 1

    def settimeout(self, _seconds: float) -> None:
        pass

    def fileno(self) -> int:
        return self.number

    def close(self) -> None:
        self.number = -1


class Line(guard.Peer):
    """The way to another member over a wire of the world."""

    def __init__(self, member: guard.Member, world: World, rank: int) -> None:
        super().__init__(member)
        self.found = [(cast("Any", None), (f"host{member.rank}",))]
        self.wire: Wire | None = None
        self._world, self._rank = world, rank

    def tell(self, line: str, _own: tuple[Any, ...]) -> None:
        reader = self._world.running.get(self.member.rank)
        cut = (self._rank, self.member.rank) in self._world.cuts
        if self.wire is not None and (self.wire.caller.sock.fileno() < 0 or self.wire.reader is not reader):
            if cut:
                return
            self.wire = None  # the other side's kernel answers that nobody is there
        if self.wire is None and reader is not None and not cut:
            self.wire = Wire(reader, guard.Caller(cast("Any", Socket()), f"host{self._rank}"))
            reader.strangers.append(self.wire.caller)
            self._world.wires.append((self._rank, self.member.rank, self.wire))
        if self.wire is not None:
            self.wire.lines.append(line.rstrip("\n"))


class Running(guard.Guard):
    """A guard whose peers are reached by wires."""

    def __init__(self, world: World, rank: int) -> None:
        members = [guard.Member(one, f"host{one}:1") for one in range(world.size)]
        options = argparse.Namespace(rank=rank, group="g", member=members, stop_timeout=STOP_TIMEOUT_S)
        super().__init__([str(rank)], {}, options)
        self._selector.close()
        self._selector = cast("Any", SimpleNamespace(unregister=lambda _sock: None))
        self._peers = {one.rank: Line(one, world, rank) for one in members if one.rank != rank}
        self._address = (f"host{rank}",)
        self._world = world

    @property
    def strangers(self) -> list[guard.Caller]:
        return self._strangers

    @property
    def epoch(self) -> str:
        return self._epoch

    @property
    def over(self) -> bool:
        late = self._world.now >= self._deadline + guard.KILL_AFTER_S
        return self._phase == guard.ENDS and (self._engine is None or late)

    @property
    def status(self) -> int:
        return self._status


class World:
    """All hosts of one replica. Its methods are what can happen to them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
        self.size = size
        self.now = 1000.0
        self.running: dict[int, Running] = {}
        self.engines: dict[int, Process] = {}
        self.wires: list[tuple[int, int, Wire]] = []
        self.cuts: set[tuple[int, int]] = set()
        self.frozen: set[int] = set()
        self.off: set[int] = set()
        self.deaf: set[int] = set()
        self.said: list[str] = []
        self._due: dict[int, float] = {}
        self._queued: set[int] = set()  # starts that wait for a stop to end
        self._numbers = itertools.count(100)
        system = {name: getattr(os, name) for name in ("P_PID", "WEXITED", "WNOHANG", "WNOWAIT")}
        calls = {"waitid": self._waitid, "killpg": self._killpg, "urandom": lambda _n: b"%d" % next(self._numbers)}
        monkeypatch.setattr(guard, "os", SimpleNamespace(**system, **calls))
        monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(guard, "subprocess", SimpleNamespace(Popen=self._popen))
        monkeypatch.setattr(guard, "say", self.said.append)
        for rank in range(size):
            self._start(rank)

    # --- what happens ---

    def tick(self) -> None:
        self.now += TICK_S
        for rank, due in sorted(self._due.items()):
            if self.now >= due and rank not in self.frozen:
                self._start(rank)
        self._carry()
        for rank, one in sorted(self.running.items()):
            if rank not in self.frozen:
                one._reap()
                one._tick(self.now)
        for rank, one in sorted(self.running.items()):
            if one.over and rank not in self.frozen:
                self._leave(rank)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK_S)):
            self.tick()

    def kill_engine(self, rank: int) -> None:
        if rank in self.engines:
            self._end(self.engines[rank], -signal.SIGKILL)

    def kill_guard(self, rank: int) -> None:
        if rank in self.running:
            self._leave(rank, failed=True)

    def freeze(self, rank: int) -> None:
        self.frozen.add(rank)

    def thaw(self, rank: int) -> None:
        self.frozen.discard(rank)

    def cut(self, rank: int, other: int) -> None:
        """In one direction."""
        self.cuts |= {(rank, other)} if rank != other else set()

    def lose_power(self, rank: int) -> None:
        """Nobody is told; the host comes back at `repair`."""
        self.running.pop(rank, None)
        self.engines.pop(rank, None)
        self._due.pop(rank, None)
        self.frozen.discard(rank)
        self.off.add(rank)

    def stop(self, rank: int) -> None:
        """`systemctl stop`, until `repair`."""
        self.off.add(rank)
        self._due.pop(rank, None)
        if rank in self.running:
            self.running[rank]._signalled(bytes([signal.SIGTERM]))

    def harden(self, rank: int) -> None:
        """The next engine of this rank hears no SIGTERM."""
        self.deaf.add(rank)

    def repair(self) -> None:
        """Every host runs, every cable is in, every unit is started."""
        self.cuts.clear()
        self.frozen.clear()
        self.deaf.clear()
        self._due.update({rank: self.now for rank in self.off if rank not in self.running})
        self._queued |= self.off & set(self.running)
        self.off.clear()

    # --- what is seen ---

    def faults(self, epoch: str) -> set[tuple[str, int, int]]:
        """Everything that keeps a group from being one, each with its rank and the other rank."""
        there = {one.rank for one in self.engines.values() if one.epoch == epoch and one.status is None}
        found = {("gone", rank, rank) for rank in range(self.size) if rank not in there}
        found |= {("frozen", rank, rank) for rank in self.frozen}
        found |= {("off", rank, rank) for rank in self.off}
        return found | {("cut", *pair) for pair in self.cuts}

    def epochs(self) -> set[str]:
        """Groups of which an engine runs on a host that is not frozen."""
        return {one.epoch for one in self.engines.values() if one.status is None and one.rank not in self.frozen}

    # --- how ---

    def _start(self, rank: int) -> None:
        self._due.pop(rank, None)
        self.running[rank] = Running(self, rank)
        self.running[rank]._beat()

    def _leave(self, rank: int, *, failed: bool = False) -> None:
        """A guard's process ends: systemd kills its engine, and starts it again when it failed."""
        one = self.running.pop(rank)
        self.engines.pop(rank, None)
        for source, _target, wire in self.wires:
            if source == rank:
                wire.closed = True
        if (failed or one.status or rank in self._queued) and rank not in self.off:
            self._due[rank] = self.now + RESTART_S
        self._queued.discard(rank)

    def _carry(self) -> None:
        """Brings what is on its way to those who can read it; what is cut off stays on its way."""
        left = []
        for source, target, wire in self.wires:
            if self.running.get(target) is not wire.reader or wire.caller.sock.fileno() < 0:
                continue
            if target in self.frozen or (source, target) in self.cuts:
                left.append((source, target, wire))
                continue
            while wire.lines and wire.caller.sock.fileno() >= 0:
                wire.reader._hear(wire.caller, wire.lines.popleft().split(" ", 5))
            if wire.closed and wire.caller.sock.fileno() >= 0:
                wire.reader._lose(wire.caller, "closed its connection")
            left.append((source, target, wire))
        self.wires = left

    def _popen(self, command: list[str], **_options: object) -> SimpleNamespace:
        rank = int(command[0])
        process = Process(next(self._numbers), rank, self.running[rank].epoch, rank in self.deaf)
        self.engines[rank] = process
        return SimpleNamespace(pid=process.pid, wait=lambda: self._collect(process))

    def _collect(self, process: Process) -> int:
        self.engines.pop(process.rank, None)
        return process.status or 0

    def _waitid(self, _kind: int, pid: int, _flags: int) -> object:
        found = [one for one in self.engines.values() if one.pid == pid]
        return None if found and found[0].status is None else object()

    def _killpg(self, pid: int, number: int) -> None:
        for one in list(self.engines.values()):
            if one.pid == pid and one.status is None and (number == signal.SIGKILL or not one.deaf):
                self._end(one, 0 if number == signal.SIGTERM else -number)

    def _end(self, process: Process, status: int) -> None:
        if process.status is None:
            process.status = status
