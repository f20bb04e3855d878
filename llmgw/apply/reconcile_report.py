# SPDX-License-Identifier: Apache-2.0
"""What a round of the continuous mode has to say, by section, and which of it was not said before. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from llmgw.apply.reconcile import BUDGET, Judgement, Seen, actions_of
from llmgw.errors import LlmgwError, LlmgwErrors
from llmgw.model.plan import Action, Plan

PROBLEM, UNREAD, DRIFT, PENDING, UNPLACED, WITHHELD = "problem", "unread", "drift", "pending", "unplaced", "withheld"
SECTIONS = (PROBLEM, UNREAD, DRIFT, PENDING, UNPLACED, WITHHELD)
_ENDS = {
    PROBLEM: "gone",
    UNREAD: "read again",
    DRIFT: "gone",
    UNPLACED: "no longer",
    WITHHELD: "no longer",
}
"""Words for what was said before and is so no more. Pending changes need none: what was done is told."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is so. `key` tells it from others of its section; `fields`: the same for programs."""

    section: str
    key: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class News:
    """One line: `event` is a section or what the loop does; `gone`: it is so no more."""

    event: str
    message: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    gone: bool = False

    def text(self) -> str:
        """The line for people."""
        end = f"{_ENDS.get(self.event, 'gone')}: " if self.gone else ""
        return f"{self.event}: {end}{self.message}"

    def document(self) -> dict[str, Any]:
        """The line for programs."""
        return {"event": self.event, "message": self.message, **self.fields, **({"gone": True} if self.gone else {})}


def items_of(seen: Seen, judgement: Judgement) -> Iterator[Item]:
    """Everything that is so in a round whose inputs could be read."""
    plan = seen.decision.plan
    for host in sorted(seen.unread):
        yield Item(UNREAD, host, f"{host} could not be read in this round", {"host": host})
    for one in plan.drift:
        what = {"kind": one.kind, "node": one.node, "subject": one.subject, "mended": one.mended}
        key = f"{one.node} {one.subject} {one.kind}"
        yield Item(DRIFT, key, f"{one.node}: {one.message}", what)
    for action in actions_of(plan):
        what = {"kind": action.kind.value, "replica": action.replica, "nodes": list(action.nodes)}
        yield Item(PENDING, f"{action.replica} {action.kind.value} {_where(action)}", _action(action), what)
    if plan.changes and not actions_of(plan):
        yield Item(PENDING, "waves", _waves(plan), {"kind": "other"})
    for lacking in plan.unplaced:
        why = f"{lacking.replica} is held back: {lacking.held}" if lacking.held else f"{lacking.replica} has no place"
        more = "" if lacking.held else f" (`llmgw plan --why {lacking.replica}` says why)"
        yield Item(UNPLACED, lacking.replica, f"{why}{more}", {"replica": lacking.replica})
    for held in judgement.withheld:
        # What is left of the budget changes by the hour, and is no news.
        about = str(judgement.size) if held.reason == BUDGET else held.why
        yield Item(WITHHELD, f"{held.reason} {about}", held.why, {"reason": held.reason})


def problem_items(errors: tuple[LlmgwError | str, ...]) -> Iterator[Item]:
    """What is wrong with the inputs, an item a mistake."""
    for error in errors:
        if isinstance(error, LlmgwErrors):
            yield from problem_items(error.errors)
        elif isinstance(error, LlmgwError):
            yield Item(PROBLEM, str(error), str(error), {"code": error.code})
        else:
            yield Item(PROBLEM, error, error)


def news(
    items: tuple[Item, ...], said: Mapping[str, Mapping[str, str]], sections: tuple[str, ...] = SECTIONS
) -> tuple[News, ...]:
    """What is new against what was `said` before, in the sections that this round can speak of."""
    lines = []
    for section in sections:
        before = said.get(section, {})
        here = {item.key: item for item in items if item.section == section}
        # A plan that is withheld for the same reason as before, with another sentence, is withheld still.
        still = {_reason(key) for key in here} if section == WITHHELD else set(here)
        if section in _ENDS:
            over = [text for key, text in before.items() if (_reason(key) if section == WITHHELD else key) not in still]
            lines += [News(section, text, gone=True) for text in over]
        lines += [News(section, item.message, item.fields) for key, item in here.items() if key not in before]
    return tuple(lines)


def remembered(items: tuple[Item, ...]) -> dict[str, dict[str, str]]:
    """The items as what was said, for the next round."""
    said: dict[str, dict[str, str]] = {}
    for item in items:
        said.setdefault(item.section, {})[item.key] = item.message
    return said


def _reason(key: str) -> str:
    return key.partition(" ")[0]


def _action(action: Action) -> str:
    where = ", ".join(action.nodes)
    moved = f"{', '.join(action.from_nodes)} -> {where}" if action.from_nodes else where
    why = f" ({action.reasons[0]})" if action.reasons else ""
    return f"{action.kind.value} {action.replica} on {moved}{why}"


def _where(action: Action) -> str:
    return ",".join(action.nodes)


def _waves(plan: Plan) -> str:
    return "; ".join(wave.title for wave in plan.waves)
