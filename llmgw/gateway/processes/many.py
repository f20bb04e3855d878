# SPDX-License-Identifier: Apache-2.0
"""The control process's view of its workers: their sums in its own table, and what it tells each of the others.

What the admin API and the metrics read is the control process's own table, into which the sums are put; so they are the
same code as in a gateway of one process.
"""

from __future__ import annotations

import asyncio
import itertools

import msgspec
import structlog

from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.endpoints.health import State
from llmgw.gateway.processes import elsewhere, sharing
from llmgw.gateway.processes.channel import (
    Answer,
    Ejected,
    Elsewhere,
    Failed,
    Hello,
    HowItIs,
    Judged,
    Message,
    Place,
    Problem,
    Prompts,
    Question,
)
from llmgw.gateway.processes.child import Child, Stage
from llmgw.gateway.processes.questions import FIND, RECENT
from llmgw.gateway.processes.supervisor import Supervisor
from llmgw.gateway.records.explain import Document, newest
from llmgw.gateway.table import LiveEndpoint, LiveRoute

TOTALS_EVERY = 5
"""Totals are only told, and so summed at every fifth look; what is in flight at each."""
SHARES_TURN = 20
"""Looks after which what does not divide among workers that wait goes to others of them."""
ANSWER_LIMIT_S = 2.0

log = structlog.get_logger()


class ManyProcesses:
    """The workers of one gateway, as the control process sees and informs them."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self.supervisor: Supervisor | None = None
        self._live: dict[str, float] = {}
        self._all: dict[str, float] = {}
        self._serving = 0
        self._looks = 0
        self._told: dict[Place, HowItIs] = {}
        self._behind: set[Child] = set()
        """Workers that could not be told something."""
        self._told_elsewhere: dict[Child, Elsewhere] = {}
        self._ejected: dict[Child, dict[Place, str]] = {}
        self._questions: dict[int, asyncio.Future[bytes | None]] = {}
        self._question_numbers = itertools.count(1)
        self.generation: int | None = None
        self.workers: dict[str, int] = {}

    # --- looking and telling ---

    def look(self, now: float) -> None:
        """Takes in what workers count, and tells each what it should know. To be called twenty times a second."""
        supervisor = self.supervisor
        if supervisor is None:
            return
        supervisor.look(now)
        children = supervisor.children()
        self._live = supervisor.numbers(live=True)
        sharing.put_live(self._plane.table, self._live)
        self._looks += 1
        if self._looks % TOTALS_EVERY == 1:
            self._sum_up(supervisor)
        self._note(supervisor, children)
        self._tell_judged(children)
        told = [child for child in children if child.stage is not Stage.STARTING]
        for child, shares in zip(told, self._shares(supervisor, told), strict=True):
            self._tell_elsewhere(child, shares)

    def _sum_up(self, supervisor: Supervisor) -> None:
        self._all = supervisor.numbers()
        sharing.put_totals(self._plane, self._all)
        self._plane.bodies.used = int(self._all.get(sharing.BODIES, 0))

    def _note(self, supervisor: Supervisor, children: list[Child]) -> None:
        self.generation = _older(supervisor.generation(), self._plane.table.bundle)
        self._serving = len([child for child in children if child.stage in {Stage.SERVING, Stage.RETIRING}])
        self.workers = {
            **{stage.value: sum(child.stage is stage for child in children) for stage in Stage if stage != Stage.ENDED},
            "hanging": supervisor.hanging,
        }
        for gone in self._ejected.keys() - set(children):
            del self._ejected[gone]
        for gone in self._told_elsewhere.keys() - set(children):
            del self._told_elsewhere[gone]
        out = {place for places in self._ejected.values() for place in places}
        for endpoint in self._plane.table.endpoints.values():
            endpoint.ejected = _place(endpoint) in out

    def _tell_judged(self, children: list[Child]) -> None:
        """What is new of endpoints, to all. When some are gone, everything: else workers would take what they were told
        of one for true when it comes back.
        """
        now = {_place(endpoint): how_it_is(endpoint) for endpoint in self._plane.table.endpoints.values()}
        changed = [one for place, one in now.items() if self._told.get(place) != one]
        if self._told.keys() - now.keys():
            self._behind.update(children)
        self._told = now
        everything = Judged([*now.values()] if self._behind else [], everything=True)
        for child in children:
            if child in self._behind:
                if child.say(everything):
                    self._behind.discard(child)
            elif changed and not child.say(Judged(changed)):
                self._behind.add(child)
        self._behind.intersection_update(children)

    def _shares(self, supervisor: Supervisor, children: list[Child]) -> list[dict[str, int]]:
        """How the places of services are divided among workers that wait for them. One that hangs waits for nothing."""
        limits = {
            str(service): route.spec.admission.max_concurrency
            for service, route in self._plane.table.routes.items()
            if route.spec.admission.max_concurrency is not None and self.waiting(route)
        }
        if not limits:
            return [{} for _child in children]
        waits = [child for child in children if not supervisor.hangs(child)]
        numbers = [child.reader.read(live=True) for child in waits]
        shares = elsewhere.divided(limits, numbers, self._looks // SHARES_TURN)
        found = dict(zip(waits, shares, strict=True))
        return [found.get(child, {}) for child in children]

    def _tell_elsewhere(self, child: Child, shares: dict[str, int]) -> None:
        said = elsewhere.without(self._live, child.reader.read(live=True), shares)
        # Said again every second without a change: a worker forgets what it is not told for long.
        if said != self._told_elsewhere.get(child) or self._looks % 20 == 0:
            self._told_elsewhere[child] = said
            child.say(said)

    def put_health(self, endpoints: list[HowItIs]) -> None:
        """Lets endpoints be as they were for the code before, until they are probed."""
        known = {one.place: one for one in endpoints}
        for endpoint in self._plane.table.endpoints.values():
            told = known.get(_place(endpoint))
            if told is not None:
                endpoint.health = told.health
                self._plane.table.report(endpoint, told.load, told.until)
                endpoint.route.refresh()

    # --- hearing ---

    def heard(self, child: Child, message: Message) -> None:
        """Follows what a worker says, but for what the supervisor needs to know alone."""
        match message:
            case Hello():
                everything = [how_it_is(endpoint) for endpoint in self._plane.table.endpoints.values()]
                child.say(Judged(everything, everything=True))
            case Failed(place, reason):
                self._failed(place, reason)
            case Ejected(place, detail):
                places = self._ejected.setdefault(child, {})
                if detail is None:
                    places.pop(place, None)
                else:
                    places[place] = detail
            case Prompts():
                self._pass_on(child, message)
            case Problem(text):
                child.problem = text
            case Answer(number, document):
                waiting = self._questions.get(number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(document)
            case _:
                pass  # the supervisor's, or to a worker

    def _pass_on(self, child: Child, message: Prompts) -> None:
        """What one worker tells of its prompts is for all others."""
        for other in () if self.supervisor is None else self.supervisor.children():
            if other is not child and other.stage is not Stage.STARTING:
                other.say(message)

    def _failed(self, place: Place, reason: str) -> None:
        for endpoint in self._plane.table.endpoints.values():
            if _place(endpoint) == place:
                self._plane.endpoint_failed(endpoint, reason.removeprefix("a request failed: "))

    # --- what is told of it all ---

    @property
    def requests(self) -> int:
        """Of all workers."""
        return int(self._live.get(sharing.REQUESTS, 0))

    @property
    def restarts(self) -> int:
        """Of all workers."""
        return 0 if self.supervisor is None else self.supervisor.restarts

    def waiting(self, route: LiveRoute) -> int:
        """Of all workers."""
        return int(self._live.get(f"=service\t{route.spec.service}\twaiting", 0))

    def idle(self, endpoint: LiveEndpoint) -> int:
        """Of all workers."""
        return int(self._all.get(f"=endpoint\t{sharing.endpoint_key(endpoint)}\tidle", 0))

    def state(self, endpoint: LiveEndpoint) -> tuple[State, str | None]:
        """Ready only where every worker has heard so, and ejected where one finds it so."""
        state = endpoint.state
        if state is State.READY:
            known = self._live.get(f"=endpoint\t{sharing.endpoint_key(endpoint)}\tready", 0)
            if known < self._serving:
                return State.LOADING, "ready, but not every worker has heard of it yet"
        if state is State.EJECTED:
            place = _place(endpoint)
            why = [places[place] for places in tuple(self._ejected.values()) if place in places]
            return state, f"{'; '.join(sorted(set(why)))} (at {len(why)} of {self._serving} workers)"
        return state, endpoint.detail(self._plane.loop.time())

    def problems(self) -> list[str]:
        """Workers that hang, are missing, or do not serve by the newest bundle."""
        supervisor = self.supervisor
        if supervisor is None:
            return []
        found = [f"worker {child.number}: {child.problem}" for child in supervisor.children() if child.problem]
        if supervisor.hanging:
            found.append(f"{supervisor.hanging} of {supervisor.size} workers hang: their requests stand still")
        missing = supervisor.size - len(supervisor.serving())
        if missing:
            found.append(f"{missing} of {supervisor.size} workers take no clients")
        return found

    # --- asking ---

    async def ask(self, name: str, argument: str) -> list[bytes | None]:
        """What workers say to a question; those that say nothing in time are left out."""
        if self.supervisor is None:
            return []
        loop = asyncio.get_running_loop()
        waiting: dict[int, asyncio.Future[bytes | None]] = {}
        for child in self.supervisor.children():
            number = next(self._question_numbers)
            if child.stage is not Stage.STARTING and child.say(Question(number, name, argument)):
                waiting[number] = self._questions[number] = loop.create_future()
        try:
            if waiting:
                await asyncio.wait(waiting.values(), timeout=ANSWER_LIMIT_S)
        finally:
            for number in waiting:
                del self._questions[number]
        return [one.result() for one in waiting.values() if one.done()]

    async def recent(self, limit: int, service: str | None) -> list[Document]:
        """The newest requests of all workers whose routing is kept."""
        told = await self.ask(RECENT, f"{limit} {service or ''}")
        return newest((msgspec.msgpack.decode(one, type=list[Document]) for one in told if one is not None), limit)

    async def find(self, request_id: str) -> Document | None:
        """The newest request of this id, at whichever worker it was."""
        told = await self.ask(FIND, request_id)
        found = newest(([msgspec.msgpack.decode(one, type=Document)] for one in told if one is not None), 1)
        return found[0] if found else None


def how_it_is(endpoint: LiveEndpoint) -> HowItIs:
    """What the control process knows of an endpoint and its workers do not."""
    return HowItIs(_place(endpoint), endpoint.health, endpoint.load, endpoint.load_until)


def _place(endpoint: LiveEndpoint) -> Place:
    spec = endpoint.spec
    return spec.id, spec.address, spec.port


def _older(of_workers: int | None, bundle: object) -> int | None:
    own: int | None = getattr(bundle, "generation", None)
    return None if of_workers is None or own is None else min(of_workers, own)
