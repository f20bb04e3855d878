# SPDX-License-Identifier: Apache-2.0
"""Saved plans: a plan written to a file to be looked at, and whether it is still the one that would be made (R9).

A saved plan is never carried out as it lies there: an apply looks at the fleet again, plans anew, and goes on only when
the inputs and the plan are those of the file. Pure but for `read`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from llmgw.errors import LlmgwError
from llmgw.model.ids import Digest
from llmgw.model.plan import PLAN_FORMAT, Action, Plan, PlanInputs
from llmgw.nodekit import unitfile, version
from llmgw.plan.codec import plan_document
from llmgw.plan.steady import ANSWERS
from llmgw.plan.wording import some

SAVED_FORMAT = 1
_FIX = "make it anew: `llmgw plan --out FILE`"
_NOTHING = "nothing"
_ALWAYS_MOVES = (
    "Catalog, inventory and hosts are as they were, yet the plan would be another one now: what always moves (free"
    " space, memory that others hold, what is ready) makes the difference."
)
_END_OF_TIME = 1e11
"""Unix seconds that no calendar has."""
_WHETHER = "whether it answers"
_KINDS_NAMED = 20
_REPLICAS_NAMED = 8


@dataclass(frozen=True, slots=True)
class SavedOptions:
    """The options that a plan was made with; an apply of it goes by them. `limit`: hosts; None: all of them."""

    lost: tuple[str, ...] = ()
    allow_mass_loss: bool = False
    limit: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """A plan as it was saved. `saved_at` is Unix seconds, `saved_by` is `user@host`."""

    plan: Plan
    llmgw_version: str
    format_version: int = SAVED_FORMAT
    saved_at: float | None = None
    saved_by: str | None = None
    options: SavedOptions = field(default_factory=SavedOptions)


def saved_text(plan: Plan, options: SavedOptions, by: str, now: float) -> str:
    """The file's text. Raises LlmgwError `saved-plan` for a plan that does not know what it was made from."""
    if plan.inputs is None:
        raise LlmgwError("saved-plan", "this plan does not say what it was made from, and cannot be saved")
    document = {
        "format_version": SAVED_FORMAT,
        "saved_at": now,
        "saved_by": by,
        "llmgw_version": version(),
        "options": asdict(options),
        "plan": plan_document(plan),
    }
    return json.dumps(document, indent=1) + "\n"


def read(path: Path) -> Saved:
    """The saved plan in a file. Raises LlmgwError `saved-plan` for everything that is none of this llmgw."""
    try:
        if path.exists() and not path.is_file():
            raise _none(path, "this is no regular file", f"name a file that `llmgw plan --out FILE` wrote, or {_FIX}")
        document = json.loads(path.read_bytes())
    except OSError as error:
        why = f"the saved plan cannot be read: {(error.strerror or type(error).__name__).lower()}"
        raise _none(path, why, "name a file that `llmgw plan --out FILE` wrote") from error
    except (ValueError, RecursionError) as error:
        raise _none(path, "the saved plan is cut off, or was never one: it is no JSON") from error
    if not isinstance(document, dict):
        raise _none(path, "this is no saved plan")
    _refuse_others(path, document)
    try:
        saved = TypeAdapter(Saved).validate_python(document)
    except (ValidationError, RecursionError) as error:
        raise _none(path, "the saved plan is broken: parts of it are missing or make no sense") from error
    if saved.plan.inputs is None:
        raise _none(path, "the saved plan does not say what it was made from")
    if saved.saved_at is not None and not 0 <= saved.saved_at < _END_OF_TIME:
        raise _none(path, "the saved plan is broken: it was saved at no time that there is")
    return saved


def refusals(saved: Saved, inputs: PlanInputs, plan: Plan) -> list[str]:
    """Why a saved plan is not carried out, in sentences: what has changed since; empty when nothing has. `inputs` and
    `plan` are those of now.
    """
    changed = list(_changed(saved.plan.inputs, inputs))
    other = list(_other(saved.plan, plan))
    if not changed and not other:
        return []
    when = "" if saved.saved_at is None else f" at {datetime.fromtimestamp(saved.saved_at, UTC):%Y-%m-%d %H:%M} UTC"
    by = f" by {saved.saved_by}" if saved.saved_by else ""
    head = f"The plan saved{by}{when} is not carried out, and nothing was touched."
    if not changed:
        changed = [_ALWAYS_MOVES]
    fix = "Look at what would be done now: `llmgw plan --out FILE`, then `llmgw apply FILE`."
    return [head, *changed, *other, fix]


def plan_digest(plan: Plan) -> Digest:
    """The digest of what a plan does: its actions and its waves, without generation, reasons, findings and advice."""
    document = plan_document(plan)
    actions = [{**action, "reasons": []} for action in document["actions"]]
    return Digest(unitfile.digest([actions, document["waves"]]))


def planned_digest(plan: Plan) -> str:
    """The digest of what a plan was made from and is about: of plans that are carried out no two have the same. Empty
    where it does not know what it was made from. Cheap, for a plan of any size.
    """
    if plan.inputs is None:
        return ""
    about = [[one.replica, one.kind.value, *one.nodes] for one in plan.actions]
    return unitfile.digest([asdict(plan.inputs), about])


def _refuse_others(path: Path, document: Mapping[str, Any]) -> None:
    """Raises LlmgwError for what is no saved plan, or one of another llmgw."""
    bare = "plan" not in document and {"actions", "waves"} <= document.keys()
    plan = document if bare else document.get("plan")
    if not isinstance(plan, dict):
        raise _none(path, "this is no saved plan")
    formats = [(plan.get("format_version"), PLAN_FORMAT)]
    formats += [] if bare else [(document.get("format_version"), SAVED_FORMAT)]
    numbers = [(found, known) for found, known in formats if isinstance(found, int)]
    if len(numbers) < len(formats):
        raise _none(path, "this is no saved plan")
    here, there = version(), document.get("llmgw_version")
    whose = f" ({there}; this is {here})" if isinstance(there, str) and there != here else ""
    if any(found > known for found, known in numbers):
        raise _none(path, f"the plan was saved by a newer llmgw{whose}")
    if any(found < known for found, known in numbers):
        raise _none(path, f"the plan was saved by an older llmgw{whose}")
    if bare:
        raise _none(path, "this is what `llmgw plan --json` prints, to be read; only what --out writes can be applied")
    if there != here:
        raise _none(path, f"the plan was saved by another version of llmgw: {there}; this is {here}")


def _changed(before: PlanInputs | None, now: PlanInputs) -> Iterator[str]:
    if before is None:
        yield "What it was made from is not known."
        return
    if before.catalog != now.catalog:
        yield "The catalog has changed."
    if before.inventory != now.inventory:
        yield "The inventory has changed: hosts, their groups, or variables that llmgw reads."
    alike: dict[str, list[str]] = {}
    for host in sorted({*before.facts, *now.facts}):
        if (words := _of_host(host, before, now)) is not None:
            alike.setdefault(words, []).append(host)
    told = [words.format(some(hosts)) for words, hosts in alike.items()]
    more = [f"{len(told) - _KINDS_NAMED} more" if len(told) > _KINDS_NAMED else ""]
    if told:
        yield f"What changed since: {'; '.join(filter(None, (*told[:_KINDS_NAMED], *more)))}."


def _of_host(host: str, before: PlanInputs, now: PlanInputs) -> str | None:
    """`on {} the generation, the routes and the units`, with a place for the hosts of which this is true."""
    old, new = before.facts.get(host), now.facts.get(host)
    if old is None:
        return "{} newly there"
    if new is None:
        return "{} not there any more"
    if len(old) > 1 and len(new) == 1:
        return "{} not known any more"
    if len(old) == 1 and len(new) > 1:
        return "{} not known then"
    parts = [part for part in dict.fromkeys((*new, *old)) if old.get(part) != new.get(part)]
    if not parts:
        return None
    *others, last = (_WHETHER if part == ANSWERS else f"the {part}" for part in parts)
    return f"on {{}} {', '.join(others)}{' and ' if others else ''}{last}"


def _other(before: Plan, now: Plan) -> Iterator[str]:
    if plan_digest(before) == plan_digest(now):
        return
    old, new = _by_replica(before.actions), _by_replica(now.actions)
    differing = [replica for replica in sorted({*old, *new}) if old.get(replica) != new.get(replica)]
    for replica in differing[:_REPLICAS_NAMED]:
        yield f"{replica}: {old.get(replica, _NOTHING)} when it was saved, {new.get(replica, _NOTHING)} now."
    if len(differing) > _REPLICAS_NAMED:
        yield f"{len(differing) - _REPLICAS_NAMED} more replicas differ."
    if not differing:
        yield "The same would be done with every replica, but with other units or in another order."


def _by_replica(actions: Iterable[Action]) -> dict[str, str]:
    """Replica to what is done with it, in words."""
    found: dict[str, str] = {}
    for action in actions:
        devices = f" ({', '.join(action.devices)})" if action.devices else ""
        words = f"{action.kind.value} on {', '.join(action.nodes)}{devices}"
        found[action.replica] = f"{found[action.replica]} and {words}" if action.replica in found else words
    return found


def _none(path: Path, why: str, fix: str = _FIX) -> LlmgwError:
    return LlmgwError("saved-plan", why, where=str(path), fix=fix)
