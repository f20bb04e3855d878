# SPDX-License-Identifier: Apache-2.0
"""The continuous mode over a world in memory: hands that read and mend it at once, and do what a test wants to go
wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from prometheus_client import generate_latest

from llmgw.apply.inputs import Inputs
from llmgw.apply.reconcile import Brakes, Spending
from llmgw.apply.reconcile_loop import Applied, Loop, Sweep
from llmgw.apply.reconcile_metrics import registry
from llmgw.apply.reconcile_report import News
from llmgw.errors import LlmgwError
from llmgw.model.ids import Digest
from llmgw.model.plan import Plan
from llmgw.model.replica import Catalog
from tests.support.fleets import catalog, fleet, node, service
from tests.support.world import World

START = 1_000_000.0


@dataclass
class FakeHands:
    """A world that is read and mended at once. What a test wants to go wrong it sets."""

    world: World
    wanted: Catalog
    clock: float = START
    gathered: list[list[str]] = field(default_factory=list)
    applies: list[Plan] = field(default_factory=list)
    told: tuple[Spending, ...] = ()
    broken: LlmgwError | None = None
    silent: set[str] = field(default_factory=set)
    mishap: Applied | None = None
    other: str | None = None
    stop: bool = False
    stops_while_reading: bool = False
    problems: tuple[LlmgwError, ...] = ()

    def now(self) -> float:
        self.clock += 1
        return self.clock

    def stopping(self) -> bool:
        return self.stop

    def sweep(self, gather: list[str]) -> Sweep:
        self.gathered.append(gather)
        names = {one.name for one in self.world.fleet.nodes} | {one.name for one in self.world.fleet.gateways}
        return Sweep(0, frozenset(map(str, names)) - self.silent, ("ansible said why",))

    def read(self, now: float) -> Inputs:
        assert now <= self.clock
        self.stop = self.stop or self.stops_while_reading
        if self.broken is not None:
            raise self.broken
        return Inputs(self.wanted, self.world.fleet, (), {}, self.problems)

    def history(self, now: float) -> tuple[Spending, ...]:
        assert now <= self.clock
        return self.told

    def at_work(self, now: float) -> str | None:
        assert now <= self.clock
        return self.other

    def apply(self, plan: Plan, say: Callable[[str], None]) -> Applied:
        self.applies.append(plan)
        if self.mishap is not None:
            return self.mishap
        say("n1  chat.0  started")
        self.world.apply(self.wanted)
        return Applied(0)


class Bench:
    """A loop over a fake fleet that serves three replicas, and everything it said since it was last asked."""

    def __init__(self, facts: Path) -> None:
        self.facts = facts
        world = World(fleet(*(node(f"n{number}") for number in range(4))))
        self.hands = FakeHands(world, catalog(service("chat", 3)))
        world.apply(self.hands.wanted)
        self.said: list[News] = []
        self.brakes = Brakes()
        self.loop = self.restarted()

    def restarted(self, *, dry_run: bool = False) -> Loop:
        self.loop = Loop(self.facts, self.hands, self.brakes, self.said.append, dry_run=dry_run)
        return self.loop

    def want(self, replicas: int, name: str = "chat") -> None:
        digest = Digest(f"sha256:{name} {replicas}")
        self.hands.wanted = replace(catalog(service(name, replicas)), digest=digest)

    def round(self) -> str:
        return self.loop.round().outcome

    def heard(self) -> list[str]:
        lines = [one.text() for one in self.said]
        self.said.clear()
        return lines

    def metrics(self) -> str:
        return generate_latest(registry(self.loop.collector)).decode()
