# SPDX-License-Identifier: Apache-2.0
"""The bounded line of requests that wait for a service: by priority, fair among keys, each with a deadline (G5). Pure.

Within one priority each key that has somebody waiting is served in turn: with K such keys none waits longer than K
turns for one of its own, however many the others send. All times are loop seconds, given by the caller.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from math import exp, inf
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

MEMORY_S = 20.0
"""How far back the drain rate looks, as the time constant of an exponential window."""
_SPARE = 64
"""Deadlines of requests that are gone which are borne before they are cleared out."""


class _Place(Generic[T]):
    """Where one item waits. `item` is None once it is out of the line."""

    __slots__ = ("item", "key", "priority")

    def __init__(self, item: T, priority: int, key: str) -> None:
        self.item: T | None = item
        self.priority = priority
        self.key = key


class Line(Generic[T]):
    """The line of one service. Items are told apart by equality and hash; one is in the line at most once.

    `max_queue` may be changed at any time: those who wait already stay. Every operation takes time in the logarithm of
    the line's length at most, but `gives_way`, which looks through the keys of a full line.
    """

    __slots__ = ("_due", "_late", "_levels", "_number", "_places", "_rate", "max_queue")

    def __init__(self, max_queue: int) -> None:
        self.max_queue = max_queue
        self._places: dict[T, _Place[T]] = {}
        self._levels: dict[int, OrderedDict[str, OrderedDict[T, None]]] = {}
        """Priority -> keys in the order of their turns -> that key's items, the oldest first."""
        self._due: list[tuple[float, int, _Place[T]]] = []
        self._late: dict[T, None] = {}
        self._number = 0
        self._rate = DrainRate()

    def __len__(self) -> int:
        return len(self._places)

    def offer(self, item: T, priority: int, key_name: str, now: float, deadline: float) -> bool:
        """Whether the item waits from now on; False when the line is full. It is in the line no longer than
        `deadline`.
        """
        if len(self._places) >= self.max_queue:
            return False
        if not self._places:
            self._rate.begin(now)
        place = _Place(item, priority, key_name)
        self._places[item] = place
        self._levels.setdefault(priority, OrderedDict()).setdefault(key_name, OrderedDict())[item] = None
        if deadline < inf:
            self._number += 1
            heappush(self._due, (deadline, self._number, place))
        return True

    def take(self, now: float) -> T | None:
        """The item whose turn it is, which is out of the line then; None when nobody waits. What is past its deadline
        is not given out: `expired` has it.
        """
        self._expire(now)
        if not self._levels:
            return None
        level = self._levels[max(self._levels)]
        key = next(iter(level))
        item = next(iter(level[key]))
        level.move_to_end(key)
        self._drop(item)
        self._rate.add(now)
        return item

    def remove(self, item: T) -> bool:
        """Whether the item was in the line, or late in it; it is out then and comes out nowhere."""
        if item in self._places:
            self._drop(item)
            return True
        there = item in self._late
        self._late.pop(item, None)
        return there

    def expired(self, now: float) -> list[T]:
        """All whose deadline has passed, the earliest first; they are out of the line."""
        self._expire(now)
        late = list(self._late)
        self._late.clear()
        return late

    def has_room(self, priority: int, key_name: str) -> bool:
        """Whether a newcomer of that key would wait, be it in the place of another."""
        return len(self._places) < self.max_queue or self.gives_way(priority, key_name) is not None

    def clear(self) -> list[T]:
        """All who wait, and those whose deadline has passed; they are out of the line."""
        everybody = [*self._late, *self._places]
        for item in everybody:
            self.remove(item)
        return everybody

    def gives_way(self, priority: int, key_name: str) -> T | None:
        """Who has to leave a full line for a newcomer of that key; None: nobody, it has room or the newcomer must go.

        It is the youngest of the key that has the most waiting at the lowest priority; at the newcomer's own priority
        only if that key has more even afterwards, so that nobody can fill the line for himself alone. The item stays in
        the line until `remove`.
        """
        # In a line that was made shorter than it is, one place less is still none for a newcomer.
        if len(self._places) != self.max_queue or not self._levels:
            return None
        lowest = min(self._levels)
        if lowest > priority:
            return None
        level = self._levels[lowest]
        key = max(level, key=lambda name: len(level[name]))
        mine = len(level.get(key_name, ()))
        if lowest == priority and len(level[key]) <= mine + 1:
            return None
        return next(reversed(level[key]))

    def wait_s(self, now: float) -> float | None:
        """How long it takes until those who wait now are served, by the rate at which the line has been moving; None
        when nobody has left it by his turn yet.
        """
        rate = self._rate.per_s(now)
        return len(self._places) / rate if rate else None

    def _expire(self, now: float) -> None:
        due = self._due
        while due and (due[0][0] <= now or due[0][2].item is None):
            item = heappop(due)[2].item
            if item is not None:
                self._drop(item)
                self._late[item] = None

    def _drop(self, item: T) -> None:
        place = self._places.pop(item)
        place.item = None
        level = self._levels[place.priority]
        waiting = level[place.key]
        del waiting[item]
        if not waiting:
            del level[place.key]
        if not level:
            del self._levels[place.priority]
        # Most leave long before their deadline: what is kept of them must not outgrow those who wait.
        if len(self._due) > 2 * len(self._places) + _SPARE:
            self._due = [one for one in self._due if one[2].item is not None]
            heapify(self._due)


class DrainRate:
    """How many leave a line a second while somebody waits in it: times in which nobody does say nothing about it."""

    __slots__ = ("_at", "_sum", "_watched")

    def __init__(self) -> None:
        self._at = 0.0
        self._sum = 0.0
        self._watched = 0.0

    def begin(self, now: float) -> None:
        """Somebody waits again."""
        self._at = now

    def add(self, now: float) -> None:
        """One has left by his turn."""
        passed = now - self._at
        self._sum = self._sum * exp(-passed / MEMORY_S) + 1
        self._watched += passed
        self._at = now

    def per_s(self, now: float) -> float | None:
        """The rate at `now`, while somebody waits; None when nothing was seen. It falls while nobody leaves."""
        if not self._sum:
            return None
        passed = max(0.0, now - self._at)
        watched = 1 - exp(-(self._watched + passed) / MEMORY_S)
        # Two that leave at one moment are no rate.
        return self._sum * exp(-passed / MEMORY_S) / MEMORY_S / max(watched, 1 / MEMORY_S)
