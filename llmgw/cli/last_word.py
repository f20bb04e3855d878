# SPDX-License-Identifier: Apache-2.0
"""The last line of an apply: what was done, and what was not, in the plan's own words (R3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from llmgw.apply.events import Progress
from llmgw.plan.wording import number, some

_UNIT = re.compile(r"llmgw-(?P<replica>.+\.[0-9]+)\.[0-9]+\.service")
_ROUTES, _MARKS, _WEIGHTS = "routes", "marks", "weights of "
_CREATED, _REMOVED = "created", "removed"
_MOVED, _STOOD_IN = "moved", "stood in meanwhile"
_WORDS = {"restarted": "updated (restarted)", "started": "started again", _REMOVED: "stopped"}
"""Of what a module calls otherwise than the plan does."""
_ORDER = (_CREATED, "restarted", "rewritten", "started", _MOVED, _STOOD_IN, _REMOVED)


def last_words(progress: Progress, *, check: bool) -> str:
    """`Done: 3 updated (restarted), routes published. Not rolled out: chat (see above). Without a place: chat/2.`"""
    parts = list(_done(progress))
    if check:
        said = f"Would be done: {', '.join(parts)}." if parts else "Nothing would be changed."
    else:
        said = f"Done: {', '.join(parts) or 'nothing changed'}."
    return " ".join((said, *_not_done(progress.plan or {})))


def _done(progress: Progress) -> Iterator[str]:
    """Replicas are counted, whatever number of members they have."""
    kinds = [_kind(actions) for actions in _by_replica(progress).values()]
    for kind in sorted(set(kinds), key=lambda one: (_ORDER.index(one) if one in _ORDER else len(_ORDER), one)):
        yield f"{kinds.count(kind)} {_WORDS.get(kind, kind)}"
    weights = {what for _host, what in progress.changed if what.startswith(_WEIGHTS)}
    if weights:
        yield f"weights of {number(len(weights), 'model')} fetched"
    marked = sum(what == _MARKS for _host, what in progress.changed)
    if marked:
        yield f"devices of {number(marked, 'host')} quarantined"
    if any(what == _ROUTES for _host, what in progress.changed):
        yield "routes published"


def _by_replica(progress: Progress) -> dict[str, set[tuple[str, str]]]:
    """Replica to what was done where with its units. A unit of no replica counts for itself."""
    found: dict[str, set[tuple[str, str]]] = {}
    for (host, unit), actions in progress.done.items():
        named = _UNIT.fullmatch(unit)
        replica = named["replica"] if named else f"{unit} on {host}"
        found.setdefault(replica, set()).update((host, action) for action in actions)
    return found


def _kind(done: set[tuple[str, str]]) -> str:
    """What all that was done with one replica comes to: created here and removed there, it has moved."""
    by_action: dict[str, set[str]] = {}
    for host, action in done:
        by_action.setdefault(action, set()).add(host)
    if {_CREATED, _REMOVED} <= by_action.keys():
        return _STOOD_IN if by_action[_CREATED] == by_action[_REMOVED] else _MOVED
    return min(by_action, key=lambda one: (_ORDER.index(one) if one in _ORDER else len(_ORDER), one))


def _not_done(plan: Mapping[str, list[str]]) -> Iterator[str]:
    if plan.get("refused"):
        yield f"Not rolled out: {some(plan['refused'])} (see above)."
    if plan.get("unplaced"):
        yield f"Without a place: {some(plan['unplaced'])}."
