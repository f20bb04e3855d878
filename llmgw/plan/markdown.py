# SPDX-License-Identifier: Apache-2.0
"""A plan as a comment of a pull request: GitHub's Markdown, never longer than GitHub takes (R1). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from llmgw.model.plan import Action, ActionKind, Drift, Plan
from llmgw.plan.drift_text import remedy
from llmgw.plan.fetches_text import fetch_lines
from llmgw.plan.markdown_escape import code, plain, row
from llmgw.plan.rollouts_text import rollout_sentence, why_withheld, withheld
from llmgw.plan.steps import fetches_of, marks_of
from llmgw.plan.text import device_ranges, summary_line
from llmgw.plan.unplaced_text import alike, why_not
from llmgw.plan.wording import number, some

MOST_CHARACTERS = 60_000
"""GitHub takes 65,536; a workflow may add a few lines of its own."""
_FOLDED_FROM = 12
"""So many rows are shown unfolded."""
_WHY_LINES = 6
"""Reasons that are told of one service without a place."""
_WARNING = "\u26a0\ufe0f "
_TO = " \u2192 "
_LEFT_OUT = 200
"""Characters kept free for saying what was left out."""


@dataclass(frozen=True, slots=True)
class Footing:
    """What stands below: how old the facts are (`up to 3 h`), and the digest of the catalog; None: unknown."""

    facts_age: str | None = None
    catalog: str | None = None


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the comment: `head` and `foot` stand or fall with it, of `rows` as many are shown as there is room."""

    head: tuple[str, ...]
    rows: tuple[str, ...]
    foot: tuple[str, ...] = ()


def plan_markdown(plan: Plan, footing: Footing | None = None) -> str:
    """The comment: a headline with counts, what is in the way, the actions, rollouts, drift, and what it was made from.

    At most `MOST_CHARACTERS` long, with a sentence on what was left out.
    """
    head = [f"### llmgw: {_headline(plan)}", "", plain(summary_line(plan)), ""]
    foot = ["", f"<sub>{_footer(footing or Footing())}</sub>", ""]
    room = MOST_CHARACTERS - len("\n".join([*head, *foot])) - _LEFT_OUT
    lines: list[str] = []
    left_out = 0
    for section in _sections(plan):
        shown, dropped = _fitted(section, room)
        left_out += dropped
        lines += shown
        room -= sum(len(line) + 1 for line in shown)
    if left_out:
        lines += [f"_{number(left_out, 'line')} left out for length: `llmgw plan` shows all of it._"]
    return "\n".join([*head, *lines, *foot])


def _fitted(section: _Section, room: int) -> tuple[list[str], int]:
    """The section with as many rows as there is room for, and how many were dropped."""
    used = sum(len(line) + 1 for line in (*section.head, *section.foot))
    rows: list[str] = []
    for line in section.rows:
        if used + len(line) + 1 > room:
            break
        rows.append(line)
        used += len(line) + 1
    if not rows:
        return [], len(section.rows)
    return [*section.head, *rows, *section.foot], len(section.rows) - len(rows)


def _headline(plan: Plan) -> str:
    changing = sum(action.kind is not ActionKind.KEEP for action in plan.actions) - len(withheld(plan))
    parts = [number(changing, "replica") + f" {'changes' if changing == 1 else 'change'}"] if changing else []
    refused = sum(one.refused for one in plan.rollouts)
    parts += [f"{number(refused, 'service')} cannot be rolled out"] if refused else []
    parts += [f"{number(len(plan.unplaced), 'replica')} cannot be placed"] if plan.unplaced else []
    parts += ["the fleet is frozen"] if plan.frozen else []
    marked = marks_of(plan)
    parts += [f"{number(len(marked), 'device')} to quarantine"] if marked else []
    if not parts:
        parts = ["only routes change" if plan.changes else "nothing to do"]
    return f"{_WARNING if refused or plan.unplaced or plan.frozen else ''}{', '.join(parts)}"


def _sections(plan: Plan) -> Iterator[_Section]:
    if plan.frozen:
        allowed = "`--allow-mass-loss` lifts this, where they are gone indeed."
        yield _Section(("> [!CAUTION]",), (f"> Frozen: {plain(plan.frozen)}. {allowed}",), ("",))
    refused = [line for one in plan.rollouts if one.refused for line in _refused(one.service, one.reason, one.fix)]
    if refused:
        yield _Section(("**Cannot be rolled out**", ""), tuple(refused), ("",))
    if plan.unplaced:
        yield _Section(("**Cannot be placed**", ""), tuple(_unplaced(plan)), ("",))
    shown = [action for action in plan.actions if action.kind is not ActionKind.KEEP]
    if shown:
        yield _actions(shown, plan)
    rollouts = [
        f"- {code(one.service)}: {plain(rollout_sentence(one, plan))}" for one in plan.rollouts if not one.refused
    ]
    yield from _listed("Rollouts", rollouts)
    yield from _listed("Fetched first", [f"- {plain(line)}" for line in fetch_lines(fetches_of(plan))])
    marks = [f"- device {code(one.device)} of {code(one.node)}: {plain(one.message)}" for one in marks_of(plan)]
    yield from _listed("To quarantine", marks)
    yield from _listed("Drift", [_drift(one, plan) for one in sorted(plan.drift, key=lambda one: one.mended)])
    yield from _listed("Left alone", [f"- {code(node)} {plain(why)}" for node, why in sorted(plan.untouched.items())])
    yield from _listed("To know", [f"- {plain(note)}" for note in plan.notes])


def _listed(title: str, rows: Sequence[str]) -> Iterator[_Section]:
    """A list below a title, folded where it is long; nothing for no rows."""
    if not rows:
        return
    if len(rows) <= _FOLDED_FROM:
        yield _Section((f"**{title}**", ""), tuple(rows), ("",))
    else:
        yield _Section(_folded(f"{title} ({len(rows)})"), tuple(rows), ("", "</details>", ""))


def _folded(title: str) -> tuple[str, ...]:
    return ("<details>", f"<summary>{title}</summary>", "")


def _refused(service: str, reason: str | None, fix: str | None) -> Iterator[str]:
    yield f"- {code(service)}: {plain(reason or 'nothing of it may be away')}"
    if fix is not None:
        yield f"  - to do: {plain(fix)}"


def _unplaced(plan: Plan) -> Iterator[str]:
    for held, those in alike(plan.unplaced):
        names = some([code(one.replica) for one in those])
        if held:
            yield f"- {names} held back: {plain(held)}"
            continue
        yield f"- {names}"
        reasons = list(why_not(those))
        yield from (f"  - {plain(line)}" for line in reasons[:_WHY_LINES])
        if len(reasons) > _WHY_LINES:
            more = number(len(reasons) - _WHY_LINES, "more reason")
            yield f"  - {more}: `llmgw plan --why {_asked(those[0].service)}`"


def _asked(service: str) -> str:
    return service if service.replace("-", "").isalnum() else "SERVICE"


def _actions(shown: Sequence[Action], plan: Plan) -> _Section:
    """The table of what happens to replicas, folded where it is long."""
    out = withheld(plan)
    rows = tuple(_action(action, plan, out=action.replica in out) for action in shown)
    table = ("| replica | | where | why |", "|---|---|---|---|")
    if len(rows) <= _FOLDED_FROM:
        return _Section(table, rows, ("",))
    return _Section((*_folded(f"{len(rows)} actions"), *table), rows, ("", "</details>", ""))


def _action(action: Action, plan: Plan, *, out: bool) -> str:
    where = ", ".join(code(node) for node in action.nodes)
    if action.from_nodes:
        where = f"{', '.join(code(node) for node in action.from_nodes)}{_TO}{where}"
    if action.devices and len(action.members) <= 1:
        where += f" on {plain(', '.join(device_ranges(action.devices)))}"
    reasons = [*((why_withheld(action, plan),) if out else ()), *action.reasons]
    kind = f"~~{action.kind.value}~~" if out else action.kind.value
    return row(code(action.replica), kind, where, plain("; ".join(reasons)))


def _drift(one: Drift, plan: Plan) -> str:
    what = "an apply puts it right" if one.mended else remedy(one, plan)
    return f"- {code(one.node)}: {plain(one.message)} ({plain(what)})"


def _footer(footing: Footing) -> str:
    told: Iterable[str] = (
        "facts of unknown age" if footing.facts_age is None else f"facts {plain(footing.facts_age)} old",
        *(() if footing.catalog is None else (f"catalog {code(footing.catalog)}",)),
    )
    return f"Planned by {', '.join(told)}. An apply looks at the fleet again before it changes anything."
