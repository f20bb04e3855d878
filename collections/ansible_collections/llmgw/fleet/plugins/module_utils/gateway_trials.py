# SPDX-License-Identifier: BSD-2-Clause
"""Counts what one gateway gets of canaries: good answers and bad ones, from now on (R4).

Private to llmgw. It judges nothing: there may be other gateways, and only all of them together tell whether a canary
has passed. It waits until this one alone knows enough, or until nothing can come any more.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Mapping, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import gateway_api
from ansible_collections.llmgw.fleet.plugins.module_utils.gateway_api import Answers

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

OPTIONS = {
    "endpoints": {"type": "list", "elements": "str", "required": True},
    "answers": {"type": "int", "required": True},
    "max_errors": {"type": "int", "default": 0},
    "timeout_s": {"type": "int", "required": True},
}
"""How a module takes a trial."""
_RESTART_S = 30.0
"""How long a gateway that has been seen may be away: it restarts."""
_FIRST_DELAY_S = 0.05
_LAST_DELAY_S = 1.0
_BACK_OFF = 1.4


class Trial(NamedTuple):
    """Each of `endpoints` should give `answers` good answers within the time, and at most `max_errors` bad ones."""

    endpoints: tuple[str, ...]
    answers: int
    max_errors: int
    timeout_s: float


class Tried(NamedTuple):
    """What came, by endpoint; None where the gateway does not tell. `detail` says why the wait ended."""

    answers: Mapping[str, Answers | None]
    detail: str
    waited_s: float


class _Counter:
    """Adds up differences. A number that is smaller than before is of a process that began at zero."""

    def __init__(self, trials: Sequence[Trial], generation: int) -> None:
        self._trials = trials
        self._generation = generation
        self._last: dict[str, Answers] = {}
        self._mute: set[str] = set()
        self._seen_s: float | None = None
        self.came: dict[str, Answers | None] = dict.fromkeys(name for trial in trials for name in trial.endpoints)

    def take(self, reading: gateway_api.Reading) -> None:
        """Adds what has come since the last reading."""
        if reading.trouble is None and reading.generation is not None and reading.generation >= self._generation:
            self._mute = set(self.came) - set(reading.answers)
        for name, so_far in self.came.items():
            now = reading.answers.get(name)
            if now is not None:
                last, (good, bad) = self._last.get(name, now), so_far or Answers(0, 0)
                self._last[name] = now
                self.came[name] = Answers(good + _grown(last.good, now.good), bad + _grown(last.bad, now.bad))

    def end(self, reading: gateway_api.Reading, waited_s: float) -> str | None:
        """Why the wait is over; None: it goes on."""
        if reading.runs:
            self._seen_s = waited_s
        elif self._seen_s is None or waited_s - self._seen_s > _RESTART_S:
            return reading.trouble
        if reading.generation is not None and reading.generation > self._generation:
            return f"the gateway goes by generation {reading.generation} by now"
        if all(map(self._over, self._trials)):
            mute = ", ".join(sorted(self._mute))
            return f"the gateway does not count the answers of {mute}" if mute else "counted"
        if all(self._over(trial) or waited_s >= trial.timeout_s for trial in self._trials):
            return f"went on after {waited_s:.1f} s{f' ({reading.trouble})' if reading.trouble else ''}"
        return None

    def _over(self, trial: Trial) -> bool:
        """Whether this gateway knows enough of a trial; of a mute endpoint it will never know more."""
        known = {name: self.came[name] or Answers(0, 0) for name in trial.endpoints if name not in self._mute}
        failed = any(one.bad > trial.max_errors for one in known.values())
        return failed or all(one.good >= trial.answers for one in known.values())


def count(host: Host, admin_url: str, token: str | None, generation: int, trials: Sequence[Trial]) -> Tried:
    """Counts until every trial is over; it is as soon as each of its endpoints has given enough good answers, when one
    has given too many bad ones, or when its time has passed.

    At once it ends where no gateway runs, where one goes by newer routes than these, and where it does not count.
    """
    began = time.monotonic()
    counter = _Counter(trials, generation)
    longest = max((trial.timeout_s for trial in trials), default=0.0)
    delay = _FIRST_DELAY_S
    while True:
        reading = gateway_api.read(host, admin_url, token)
        counter.take(reading)
        waited = time.monotonic() - began
        detail = counter.end(reading, waited)
        if detail is not None:
            return Tried(counter.came, detail, waited)
        time.sleep(max(0.0, min(delay, longest - waited)))
        delay = min(_LAST_DELAY_S, delay * _BACK_OFF)


def _grown(last: int, now: int) -> int:
    return now - last if now >= last else now
