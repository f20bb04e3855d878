# SPDX-License-Identifier: Apache-2.0
"""Goes through a story on real hosts: disturb, edit, apply, look, apply again. A line a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tests.fleet.changes.disturbing import disturb
from tests.fleet.changes.edits import Step
from tests.fleet.changes.fleet import ChangedFleet
from tests.fleet.changes.looking import wrongs

Say = Callable[[str], None]


def go_through(fleet: ChangedFleet, steps: Iterable[Step], say: Say) -> list[str]:
    """Sentences about the first step after which something is wrong; empty when none is."""
    for step in steps:
        begun = time.monotonic()
        happened = disturb(fleet.lab, step.disturbances)
        fleet.write(step.wish)
        first = fleet.apply()
        applied = time.monotonic() - begun
        found = _of_the_first(first.status, first.out, first.err)
        if not found:
            found = wrongs(fleet, step.wish, first.status)
        if not found:
            second = fleet.apply()
            changed = second.document["changed"] if second.status in (0, 3) else second.err
            if changed or second.status != first.status:
                found = [f"a second apply is not empty (status {second.status}): {changed}"]
        words = "; ".join((*happened, *step.edits))
        replicas = f"{len(fleet.running())} of {step.wish.replicas} replicas"
        say(
            f"{step.number:>3} {'ok' if not found else 'WRONG':5} status {first.status}, {replicas},"
            f" apply {applied:4.1f} s, all {time.monotonic() - begun:4.1f} s: {words}"
        )
        if found:
            return [f"step {step.number}: {one}" for one in found]
    return []


def _of_the_first(status: int, out: str, err: str) -> list[str]:
    return [] if status in (0, 3) else [f"apply ended with {status}:\n{out[-6000:]}\n{err[-3000:]}"]
