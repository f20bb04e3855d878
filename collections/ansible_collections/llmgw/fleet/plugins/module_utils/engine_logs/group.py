# SPDX-License-Identifier: BSD-2-Clause
"""What the guard of a group member says in its log (R7): for whom it waits, before the engine starts."""

from __future__ import annotations

import re
from typing import Optional

from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.reading import lines_of

_GUARD = re.compile(r"llmgw-guard: (?P<said>.{1,300})")
_WAITS = re.compile(r"waiting for (?P<whom>.{1,240}?)(?: \(group .{0,80}\))?$")
_BEGINS = re.compile(r", one of \d{1,6}, group ")


def waited_for(text: str) -> Optional[str]:
    """Why a member's engine does not run yet, as its guard's last line says; None: it runs, or there is no guard."""
    for line in reversed(lines_of(text)):
        found = _GUARD.search(line)
        if found is None:
            continue
        waits = _WAITS.search(found.group("said"))
        if waits is not None:
            return f"it waits for {waits.group('whom')}"
        return "it waits for the other members of its group" if _BEGINS.search(line) else None
    return None
