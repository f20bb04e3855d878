# SPDX-License-Identifier: Apache-2.0
"""The engines of a soak: processes that die, hang and come back, and a record of when each of them could answer."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Self

from llmgw.model.route import Route
from tests.bench.trial_gateway import At, TrialGateway, free_ports, start_engine
from tests.gateway.harness import endpoint, route

SERVICES = {"one": 3, "two": 3, "alone": 1}
"""Engines of each service. `alone` is left in peace: nothing of it may ever fail."""
UNKNOWN_S = 3.0
"""How long after its return an engine is not counted as one that had to answer: it has to start and be probed."""


@dataclass
class Member:
    """One engine: its process, and the times (monotonic) from which it could or could not answer."""

    service: str
    number: int
    port: int
    process: subprocess.Popen[bytes] | None = None
    changes: list[tuple[float, bool]] = field(default_factory=list)
    routed: list[tuple[float, bool]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As in answers and endpoints."""
        return f"{self.service}/{self.number}"

    def could_answer(self, begin: float, end: float) -> bool:
        """Whether it was up and routed all that time, and for a while before."""
        return _held(self.changes, begin - UNKNOWN_S, end) and _held(self.routed, begin - UNKNOWN_S, end)

    def troubled(self, begin: float, end: float) -> bool:
        """Whether it was down or hung at some moment of that time."""
        return not _held(self.changes, begin, end)


def _held(changes: list[tuple[float, bool]], begin: float, end: float) -> bool:
    """Whether the last state before `begin` and all until `end` were true."""
    first = max(0, bisect_right(changes, begin, key=lambda change: change[0]) - 1)
    seen = changes[first:]
    return bool(seen) and seen[0][0] <= begin and all(state for at, state in seen if at <= end)


class Fleet:
    """All engines; use as a context manager."""

    def __init__(self, seed: int) -> None:
        ports = iter(free_ports(sum(SERVICES.values())))
        self.members = [
            Member(service, number, next(ports)) for service, count in SERVICES.items() for number in range(count)
        ]
        self.counts = {"killed": 0, "hung": 0, "restarted": 0, "routes": 0}
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        for member in self.members:
            self._start(member)
            member.routed.append((0.0, True))
            member.changes.append((0.0, True))
        return self

    def __exit__(self, *_: object) -> None:
        self.calm()
        for member in self.members:
            _signal(member, signal.SIGKILL)

    def of(self, service: str) -> list[Member]:
        """The engines of one service."""
        return [member for member in self.members if member.service == service]

    def routes(self, members: list[Member] | None = None, draining: tuple[str, ...] = ()) -> list[Route]:
        """Routes to those engines, all by default."""
        chosen = self.members if members is None else members
        return [
            route(
                [
                    endpoint(At(one.port), one.number, service, node=f"n{one.number}", draining=one.name in draining)
                    for one in chosen
                    if one.service == service
                ],
                service=service,
                served_name=service,
                aliases=(f"{service}-alias",),
            )
            for service in SERVICES
        ]

    def trouble(self, gateway: TrialGateway, reload_s: float) -> None:
        """Begins: an engine dies or hangs every few seconds, and routes change every `reload_s`."""
        for work in (self._break, lambda: self._reload(gateway, reload_s)):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._threads.append(thread)

    def calm(self) -> None:
        """Ends all trouble; every engine is up afterwards."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _break(self) -> None:
        while not self._stop.wait(self._chance.uniform(0.5, 3.0)):
            victim = self._chance.choice([one for one in self.members if one.service != "alone"])
            how = self._chance.choice(["killed", "killed", "hung", "restarted"])
            self.counts[how] += 1
            victim.changes.append((time.monotonic(), False))
            if how == "hung":
                _signal(victim, signal.SIGSTOP)
                self._stop.wait(self._chance.choice([0.5, 2.0, 8.0]))
                _signal(victim, signal.SIGCONT)
            else:
                _signal(victim, signal.SIGKILL if how == "killed" else signal.SIGTERM)
                self._stop.wait(self._chance.choice([0.0, 0.5, 4.0]))
                self._start(victim)
            victim.changes.append((time.monotonic(), True))

    def _reload(self, gateway: TrialGateway, reload_s: float) -> None:
        while not self._stop.wait(reload_s):
            self.counts["routes"] += 1
            kept, drained = self._some()
            now = time.monotonic()
            for member in self.members:
                member.routed.append((now, member in kept and member.name not in drained))
            gateway.publish(self.routes(kept, drained))
        gateway.publish(self.routes())
        for member in self.members:
            member.routed.append((time.monotonic(), True))

    def _some(self) -> tuple[list[Member], tuple[str, ...]]:
        """Which engines are routed next, at least one of each service, and the names of those that drain."""
        kept: list[Member] = []
        drained: list[str] = []
        for service in SERVICES:
            members = self.of(service)
            sure = self._chance.choice(members)
            others = [one for one in members if one is not sure and self._chance.random() < 0.8]
            drained += [one.name for one in others if self._chance.random() < 0.1]
            kept += [sure, *others]
        return kept, tuple(drained)

    def _start(self, member: Member) -> None:
        member.process = start_engine(member.port)


def _signal(member: Member, number: signal.Signals) -> None:
    process = member.process
    if process is None:
        return
    process.send_signal(number)
    if number in {signal.SIGKILL, signal.SIGTERM}:
        process.wait()
