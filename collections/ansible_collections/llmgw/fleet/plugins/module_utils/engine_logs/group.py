# SPDX-License-Identifier: BSD-2-Clause
"""What the guard of a group member says in its log (R7): when it starts, for whom it waits, why its group ended."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.reading import GUARD_BEGINS, lines_of

_SAID = re.compile(r"llmgw-guard: (?P<said>.{1,2000})")
_WAITS = re.compile(r"waiting for (?P<whom>.{1,2000}?)(?: \(group \S{0,80}\)?)?$")
_REFUSED = "refused a connection from "
_ENDS = re.compile(r"the group ends: (?P<why>.{1,2000})")
_RANK = re.compile(r"\brank (?P<rank>\d{1,6}) at ")
_LONGEST = 240
FOR_ALL = "it waits for the other members of its group"


class GroupEnd(NamedTuple):
    """Why a group ended, in the words of a guard, and on which line of the log."""

    line: int
    why: str


def waited_for(text: str) -> Optional[str]:
    """Why a member's engine does not run yet, as its guard says; None: it runs or ended, or there is no guard."""
    for line in reversed(lines_of(text)):
        found = _SAID.search(line)
        if found is None or found.group("said").startswith(_REFUSED):
            continue
        waits = _WAITS.match(found.group("said"))
        if waits is not None:
            return f"it waits for {_short(waits.group('whom'))}"
        return FOR_ALL if GUARD_BEGINS.search(line) else None
    return None


def ended_by_another(lines: Sequence[str]) -> Optional[GroupEnd]:
    """The first end of a group in a log that its guard lays to another member than its own; None: there is none."""
    own = None
    for number, line in enumerate(lines):
        begins = GUARD_BEGINS.search(line)
        if begins is not None:
            own = begins.group("rank")
        ends = _ENDS.search(line)
        if ends is None:
            continue
        named = _RANK.search(ends.group("why"))
        if named is not None and named.group("rank") != own:
            return GroupEnd(number, _short(ends.group("why")))
    return None


def _short(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."
