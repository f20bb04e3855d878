# SPDX-License-Identifier: Apache-2.0
"""Random edits of a fleet, one step after another, and what somebody else does to it in between. Pure: the same seed
gives the same story on every machine, whatever the hosts do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tests.fleet.changes.wishes import Service, Wish

NAMES = ("amber", "birch", "cedar", "dune", "ember", "fjord")
UNIT_DISTURBANCES = ("stop", "kill", "edit", "delete", "drop-in", "remove", "disable")
_REPLICAS_PER_HOST = 2
_MOST_OF_ONE = 5


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What happens to the unit, or for `reboot` to the host, that `target` counts to among those that are there."""

    kind: str
    target: int

    def __str__(self) -> str:
        return f"{self.kind} #{self.target}"


@dataclass(frozen=True, slots=True)
class Step:
    """One apply: what happened to the hosts since the last, the edits in words, and all that is asked for then."""

    number: int
    disturbances: tuple[Disturbance, ...]
    edits: tuple[str, ...]
    wish: Wish


def story(seed: int, hosts: Sequence[str], steps: int) -> Iterator[Step]:
    """The steps of a seed, the first of which begins with two services."""
    chance = random.Random(seed)
    writer = _Writer(chance, tuple(hosts))
    wish = Wish({NAMES[0]: Service(2), NAMES[1]: Service(2, spread="node")})
    for number in range(1, steps + 1):
        words = []
        for _edit in range(chance.choice((1, 1, 2, 3))):
            wish, text = writer.edit(wish)
            words.append(text)
        happened = writer.disturbances() if number > 1 else ()
        yield Step(number, happened, tuple(words), wish)


class _Writer:
    """Draws edits that are possible as things are."""

    def __init__(self, chance: random.Random, hosts: tuple[str, ...]) -> None:
        self._chance = chance
        self._hosts = hosts
        on_services: tuple[Callable[[Wish], tuple[Wish, str] | None], ...] = (
            *(self._scale, self._scale, self._change_argument, self._change_argument, self._add, self._delete),
            *(self._rename, self._rollout, self._rollout, self._spread, self._memory, self._priority),
        )
        self._edits = (*on_services, self._cordon, self._drain, self._uncordon, self._undrain)

    def disturbances(self) -> tuple[Disturbance, ...]:
        """None in most steps, else one or two."""
        number = self._chance.choice((0, 0, 1, 2))
        kinds = (*UNIT_DISTURBANCES, *UNIT_DISTURBANCES, "reboot")
        return tuple(Disturbance(self._chance.choice(kinds), self._chance.randrange(12)) for _one in range(number))

    def edit(self, wish: Wish) -> tuple[Wish, str]:
        """The next edit, and what it is in words. Few of them leave the fleet nearly empty."""
        while True:
            found = self._chance.choice(self._edits)(wish)
            if found is None or found[0] == wish or found[0].replicas > _REPLICAS_PER_HOST * len(self._hosts):
                continue
            if found[0].replicas >= min(wish.replicas, len(self._hosts) // 2) or self._chance.randrange(8) == 0:
                return found

    def _one(self, wish: Wish) -> str | None:
        return self._chance.choice(sorted(wish.services)) if wish.services else None

    def _changed(self, wish: Wish, what: str, values: Sequence[object]) -> tuple[Wish, str] | None:
        name = self._one(wish)
        if name is None:
            return None
        value = self._chance.choice(values)
        changed = replace(wish.services[name], **{what: value})  # type: ignore[arg-type]
        return _with(wish, {**wish.services, name: changed}), f"{name}: {what} {value}"

    def _scale(self, wish: Wish) -> tuple[Wish, str] | None:
        return self._changed(wish, "replicas", range(_MOST_OF_ONE + 1))

    def _change_argument(self, wish: Wish) -> tuple[Wish, str] | None:
        return self._changed(wish, "argument", range(5, 60))

    def _memory(self, wish: Wish) -> tuple[Wish, str] | None:
        return self._changed(wish, "memory_gb", (0.2, 0.2, 1.0, 5.0))

    def _spread(self, wish: Wish) -> tuple[Wish, str] | None:
        return self._changed(wish, "spread", (None, "node", "rack"))

    def _priority(self, wish: Wish) -> tuple[Wish, str] | None:
        return self._changed(wish, "priority", (0, 0, 5))

    def _rollout(self, wish: Wish) -> tuple[Wish, str] | None:
        name = self._one(wish)
        if name is None:
            return None
        away, surge = self._chance.choice(((0, 1), (0, 2), (1, None), (1, 0), (1, 1), (2, 0), (2, 1), (0, None)))
        changed = replace(wish.services[name], max_unavailable=away, max_surge=surge)
        return _with(wish, {**wish.services, name: changed}), f"{name}: max_unavailable {away}, max_surge {surge}"

    def _add(self, wish: Wish) -> tuple[Wish, str] | None:
        free = [name for name in NAMES if name not in wish.services]
        if not free:
            return None
        name, replicas = self._chance.choice(free), self._chance.randrange(1, 4)
        return _with(wish, {**wish.services, name: Service(replicas)}), f"add {name}: {replicas}"

    def _delete(self, wish: Wish) -> tuple[Wish, str] | None:
        name = self._one(wish)
        if name is None:
            return None
        return _with(wish, {key: one for key, one in wish.services.items() if key != name}), f"delete {name}"

    def _rename(self, wish: Wish) -> tuple[Wish, str] | None:
        free = [name for name in NAMES if name not in wish.services]
        name = self._one(wish)
        if name is None or not free:
            return None
        new = self._chance.choice(free)
        others = {key: one for key, one in wish.services.items() if key != name}
        return _with(wish, {**others, new: wish.services[name]}), f"rename {name} to {new}"

    def _cordon(self, wish: Wish) -> tuple[Wish, str] | None:
        host = self._chance.choice(self._hosts)
        return (replace(wish, cordoned=wish.cordoned | {host}), f"cordon {host}") if self._room(wish) else None

    def _drain(self, wish: Wish) -> tuple[Wish, str] | None:
        host = self._chance.choice(self._hosts)
        return (replace(wish, drained=wish.drained | {host}), f"drain {host}") if self._room(wish) else None

    def _uncordon(self, wish: Wish) -> tuple[Wish, str] | None:
        if not wish.cordoned:
            return None
        host = self._chance.choice(sorted(wish.cordoned))
        return replace(wish, cordoned=wish.cordoned - {host}), f"uncordon {host}"

    def _undrain(self, wish: Wish) -> tuple[Wish, str] | None:
        if not wish.drained:
            return None
        host = self._chance.choice(sorted(wish.drained))
        return replace(wish, drained=wish.drained - {host}), f"undrain {host}"

    def _room(self, wish: Wish) -> bool:
        """Whether a host more may be closed: two stay open."""
        return len(self._hosts) - len(wish.cordoned | wish.drained) > 2


def _with(wish: Wish, services: dict[str, Service]) -> Wish:
    return replace(wish, services={name: services[name] for name in sorted(services)})
