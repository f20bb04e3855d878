# SPDX-License-Identifier: Apache-2.0
"""What the continuous mode remembers from one round to the next and over restarts: one file in the facts cache.

Losing it loses nothing that matters: it begins to count anew, says once more what it has said, and reads everything in
its next round. The budget is counted from the history of applies too, so that it outlives this file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from llmgw.apply.reconcile import WINDOW_S, Failure, Spending
from llmgw.errors import LlmgwError
from llmgw.fleet.store import write_atomically

STATE_FORMAT = 1
STATE, LOCK = ".reconcile.json", ".reconcile.lock"
"""In the facts cache; no host has files of these names."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is remembered. Times are Unix seconds; None: it has not been yet, or is not known.

    `rounds`: by outcome; `actions`: those begun, by kind; `said`: by section what was said last, a sentence a key;
    `ahead`: by the time that the history tells of something later than now, when that was first seen.
    """

    format_version: int = STATE_FORMAT
    rounds: dict[str, int] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    last_round: float | None = None
    last_success: float | None = None
    read_whole: float | None = None
    """When every part of the facts was read, of every host that answered."""
    spent: tuple[Spending, ...] = ()
    failure: Failure | None = None
    said: dict[str, dict[str, str]] = field(default_factory=dict)
    ahead: dict[str, float] = field(default_factory=dict)


def load(directory: Path) -> tuple[Standing, str | None]:
    """What is remembered in a facts cache, and why that is nothing although there is a file."""
    path = directory / STATE
    try:
        found = TypeAdapter(Standing).validate_python(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return Standing(), None
    except (OSError, ValueError, RecursionError) as error:
        # What pydantic says of a whole document is many lines.
        why = "it is no JSON of such a state" if isinstance(error, ValidationError | ValueError) else str(error)
        return Standing(), f"{path}: what earlier rounds remembered cannot be read ({why}): it begins anew"
    if found.format_version != STATE_FORMAT:
        return Standing(), f"{path} is of another version of llmgw: it begins anew"
    return found, None


def save(directory: Path, standing: Standing) -> None:
    """Remember this. Raises LlmgwError `facts-unwritable`."""
    path = directory / STATE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(asdict(standing), indent=1, sort_keys=True) + "\n")
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        fix = "let the user who runs llmgw write there, or name another facts cache with --facts"
        raise LlmgwError(
            "facts-unwritable", f"what this round did cannot be remembered: {why}", where=str(path), fix=fix
        ) from error


def dated(standing: Standing, history: tuple[Spending, ...], now: float) -> Standing:
    """The same with nothing later than now in it: a clock was wrong or went back. What was begun then counts from the
    moment when that was first seen, or it would count for as long as the clock was wrong.
    """
    later = sorted({str(one.at) for one in history if one.at > now})
    ahead = {at: min(now, standing.ahead.get(at, now)) for at in later}
    spent = tuple(replace(one, at=min(one.at, now)) for one in standing.spent)
    return replace(standing, spent=spent, ahead=ahead)


def spent_of(standing: Standing, history: tuple[Spending, ...], now: float) -> tuple[Spending, ...]:
    """What counts against the budget: the history of applies, or what is remembered here where that is more."""
    seen = (replace(one, at=standing.ahead.get(str(one.at), now)) if one.at > now else one for one in history)
    told = tuple(one for one in seen if one.at > now - WINDOW_S)
    own = tuple(one for one in standing.spent if one.at > now - WINDOW_S)
    return max(own, told, key=lambda spent: sum(one.actions for one in spent))
