# SPDX-License-Identifier: Apache-2.0
"""Step kinds of a rollout: what change brings each about, and how to see from outside that it is under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.fleet.faults.inside import Inside
from tests.fleet.faults.sampling import Sample

SERVICE = "chat"
LOCK = "/var/lib/llmgw/lock"
KEYS = "/etc/llmgw-faults.keys"
"""An empty file. A unit of a broken shape cannot start where it is missing."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A state of the site that a catalog describes. `variant`: which of two arguments; `broken`: one host cannot start
    it.
    """

    replicas: int
    variant: int = 0
    broken: bool = False
    max_unavailable: int = 1
    real: bool = False
    """Whether llama.cpp with a small model serves, instead of simulators."""

    @property
    def argument(self) -> str:
        """A word of the engine's command line by which processes of variants are told apart: the context of llama.cpp,
        the simulator's --ttft-ms.
        """
        return str((1024 if self.real else 50) + self.variant)


@dataclass(frozen=True, slots=True)
class Before:
    """What was there when the run began: units by host, when their locks were last taken, generation of the routes."""

    units: dict[str, set[str]]
    locks: dict[str, int]
    generation: int
    argument: str


@dataclass(slots=True)
class Watch:
    """One run, watched: `seen` is what a step's test remembers between its looks."""

    inside: Inside
    before: Before
    after: Shape
    sample: Sample
    seen: dict[str, set[str]] = field(default_factory=dict)


Spotted = tuple[str, str]
"""Host and unit (`chat.0.0`) that a step is at work on."""


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the matrix: `change` makes the shape that is applied out of the one that is there."""

    name: str
    replicas: int
    change: Callable[[Shape], Shape]
    spot: Callable[[Watch], Spotted | None]
    takes_away: bool = True
    """Whether a replica is unavailable meanwhile, as `max_unavailable` allows."""
    real: bool = False
    faults: tuple[str, ...] = ()
    """Names of the faults that it is tried with; none: all."""
    back: bool = False
    """Whether what was there before is applied after the fault, instead of the change once more."""


def unit_of(endpoint: str) -> Spotted:
    """Host and unit of an endpoint such as chat/0@n2."""
    replica, _, host = endpoint.partition("@")
    return host, f"{replica.replace('/', '.')}.0"


def _draining(watch: Watch) -> Spotted | None:
    for name, one in watch.sample.endpoints.items():
        if one.state == "draining" or one.leaving:
            return unit_of(name)
    return None


def _updating(watch: Watch) -> Spotted | None:
    for host in watch.before.units:
        for unit, command in watch.inside.commands(host).items():
            if watch.after.argument in command and unit in watch.before.units[host]:
                return host, unit
    return None


def _publishing(watch: Watch) -> Spotted | None:
    """The routes after those of the drain are in force; what has just been updated is what they wait for."""
    draining = _draining(watch)
    if draining is not None and "drained" not in watch.seen:
        watch.seen["drained"] = {"@".join(draining)}
    if watch.sample.generation >= watch.before.generation + 2 and "drained" in watch.seen:
        host, _, unit = min(watch.seen["drained"]).partition("@")
        return host, unit
    return None


def _starting(watch: Watch) -> Spotted | None:
    for host, known in watch.before.units.items():
        new = watch.inside.commands(host).keys() - known
        if new:
            return host, min(new)
    return None


def _stopping(watch: Watch) -> Spotted | None:
    for host, before in watch.before.locks.items():
        if watch.inside.changed_at(host, LOCK) != before:
            surplus = [unit for unit in watch.before.units[host] if unit.split(".")[1] == str(watch.after.replicas)]
            if surplus:
                return host, surplus[0]
    return None


def _putting_back(watch: Watch) -> Spotted | None:
    """The unit that failed has its old argument again: its own host sees to that."""
    return _reverted(watch, failed=True)


def _undoing(watch: Watch) -> Spotted | None:
    """A unit of the same wave that did well has its old argument again: a step of the plan sees to that."""
    return _reverted(watch, failed=False)


def _reverted(watch: Watch, *, failed: bool) -> Spotted | None:
    new = watch.seen.setdefault("new", set())
    for host in watch.before.units:
        for unit, command in watch.inside.commands(host).items():
            if watch.after.argument in command:
                new.add(f"{host}/{unit}")
            elif (
                watch.before.argument in command
                and f"{host}/{unit}" in new
                and watch.inside.path(host, KEYS).exists() is not failed
            ):
                return host, unit
    return None


def _updated(shape: Shape) -> Shape:
    return replace(shape, variant=1 - shape.variant)


def _broken(shape: Shape) -> Shape:
    return replace(shape, variant=1 - shape.variant, broken=True, max_unavailable=2)


_FEW = ("kill controller", "kill engine in work", "crash node")
STEPS = (
    Step("units", 3, _updated, _updating),
    Step("start", 3, lambda shape: replace(shape, replicas=4), _starting, takes_away=False),
    Step("stop", 4, lambda shape: replace(shape, replicas=3), _stopping, takes_away=False),
    Step("drain", 3, _updated, _draining, back=True),
    Step("ready", 3, _updated, _publishing, back=True),
    Step("undo", 3, _broken, _undoing, back=True),
    Step("put back", 3, _broken, _putting_back, back=True, faults=_FEW),
    Step(
        *("units of llama.cpp", 3, _updated, _updating),
        real=True,
        faults=_FEW,
    ),
)
