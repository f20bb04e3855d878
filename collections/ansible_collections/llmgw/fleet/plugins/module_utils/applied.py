# SPDX-License-Identifier: BSD-2-Clause
"""Who applied what to a host last, and why a plan comes too late for it (R9).

Private to llmgw and pure. Controllers that plan at the same moment give their plans the same generation. Each host
decides between them by itself: under its lock the first plan of a generation claims that generation, and another plan
of the same one is refused like an older one. On one host, so, exactly one of them is carried out. Over several hosts
the one may be first here and the other there, and both fail. Nothing is wrong then: what each did on a host was whole,
every host tells what it runs, and the next plan of either sees that, is of a higher generation, and goes on from it.
"""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

_MOST_DIGITS = 18
_LONGEST = 200
_YEAR_10000 = 253402300800
_SECONDS, _MINUTES, _HOURS = 90.0, 90 * 60.0, 36 * 3600.0  # up to where an age is told in each


class Applied(NamedTuple):
    """What was applied last: the plan's generation and id, who did it (`user@host` of the controller), and when by this
    host's clock (Unix seconds). `routes_digest`: of the bundle that the note lies beside. What is not known is None:
    earlier versions noted the generation alone.
    """

    generation: int | None = None
    plan_id: str | None = None
    by: str | None = None
    at: float | None = None
    routes_digest: str | None = None


def parse(text: str | bytes | None) -> Applied:
    """What a note says; what is missing or broken in it is unknown."""
    try:
        said = json.loads(text or "{}")
    except (ValueError, RecursionError):  # any bytes may lie there
        return Applied()
    if not isinstance(said, dict):
        return Applied()
    return Applied(
        _whole(said.get("generation")),
        _words(said.get("plan_id")),
        _words(said.get("by")),
        _moment(said.get("at")),
        _words(said.get("routes_digest")),
    )


def note(applied: Applied) -> bytes:
    """The text of a note."""
    said = applied._replace(plan_id=_words(applied.plan_id), by=_words(applied.by))._asdict()
    if applied.routes_digest is None:
        del said["routes_digest"]
    return (json.dumps(said, sort_keys=True) + "\n").encode("ascii")


def newer(seen: Applied, generation: int, plan_id: str | None) -> bool:
    """Whether what is noted must give way to this plan: it is of an older generation, or of the same and unclaimed."""
    if seen.generation is None or seen.generation < generation:
        return True
    return seen.generation == generation and seen.plan_id is None and plan_id is not None


def overtaken(seen: Applied, generation: int, plan_id: str | None, now: float) -> str | None:
    """Why a plan comes too late: a newer generation was here, or the same one of another plan; None when it does not.

    A plan without an id, or one that meets a note without one, is judged by its generation alone. `now`: this host's
    clock.
    """
    if seen.generation is None or seen.generation < generation:
        return None
    where = f"generation {seen.generation} was applied here{whose(seen, now)}"
    if seen.generation > generation:
        return f"{where}, this plan is of generation {generation}: another controller is ahead"
    if may_be(seen, plan_id):
        return None
    return f"{where}, this plan is of generation {generation} too: another controller was quicker"


def may_be(seen: Applied, plan_id: str | None) -> bool:
    """Whether what is noted may be this very plan: where one of them has no id, nothing speaks against it."""
    return seen.plan_id is None or _words(plan_id) in {None, seen.plan_id}


def whose(seen: Applied, now: float) -> str:
    """` by ops@ctl1 at 14:03 UTC (2 minutes ago)`, as far as it is known; empty when nothing is."""
    who = f" by {seen.by}" if seen.by else ""
    if seen.at is None:
        return who
    that, this = time.gmtime(seen.at), time.gmtime(now)
    day = "" if that[:3] == this[:3] else time.strftime("on %Y-%m-%d ", that)
    return f"{who} {day}at {time.strftime('%H:%M UTC', that)}{_ago(now - seen.at)}"


def _ago(seconds: float) -> str:
    """The age in words; nothing when a clock was set back meanwhile. Notes are rounded, so that a new one may be of the
    next moment.
    """
    if seconds < -1:
        return ""
    seconds = max(0.0, seconds)
    for limit, unit, size in ((_SECONDS, "second", 1), (_MINUTES, "minute", 60), (_HOURS, "hour", 3600)):
        if seconds < limit:
            return f" ({_counted(int(seconds / size), unit)} ago)"
    return f" ({_counted(int(seconds / 86400), 'day')} ago)"


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _whole(said: Any) -> int | None:
    return said if isinstance(said, int) and not isinstance(said, bool) and 0 <= said < 10**_MOST_DIGITS else None


def _moment(said: Any) -> float | None:
    number = isinstance(said, (int, float)) and not isinstance(said, bool)
    return float(said) if number and 0 < said < _YEAR_10000 else None


def _words(said: Any) -> str | None:
    """A text on one line and of bounded length, or None."""
    if not isinstance(said, str):
        return None
    return "".join(filter(str.isprintable, said))[:_LONGEST] or None
