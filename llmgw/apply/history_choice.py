# SPDX-License-Identifier: Apache-2.0
"""Which apply of the history is meant: by its id or generation, or as the one to roll back to. Pure."""

from __future__ import annotations

import re

from llmgw.apply.history import DONE, REFUSED, History, Record
from llmgw.errors import LlmgwError

_SHORTEST_ID = 4
_SEE = "see `llmgw history -n 0` for all that there are"


def choose(found: History, which: str) -> Record:
    """The apply of that id (its beginning is enough), or of that generation: of several the newest that went well,
    else the newest. Raises LlmgwError `history-unknown`.
    """
    by_id = [record for record in found.records if record.id == which]
    if not by_id and re.fullmatch("[0-9]{1,18}", which):
        same = [record for record in found.records if record.generation == int(which)]
        by_id = [record for record in same if record.outcome == DONE] or same
    if not by_id and len(which) >= _SHORTEST_ID:
        by_id = [record for record in found.records if record.id.startswith(which)]
        if len({record.id for record in by_id}) > 1:
            why = f"{len(by_id)} applies have an id that begins with {which}"
            raise LlmgwError("history-unknown", why, fix="write more of it")
    if not by_id:
        raise LlmgwError(
            "history-unknown", f"the history has no apply {which}, neither as generation nor as id", fix=_SEE
        )
    return by_id[0]


def rollback_target(found: History, which: str | None) -> Record:
    """The apply whose catalog a rollback applies again: the one that is named, else the newest that went well with
    another catalog than the one that was applied last. Raises LlmgwError `history-unknown`, `history-nothing-earlier`.
    """
    if which is not None:
        record = choose(found, which)
        if record.outcome != DONE:
            why = (
                f"the apply of generation {record.generation} did not go well ({record.outcome}): nothing to go back to"
            )
            raise LlmgwError("history-unknown", why, fix="name one whose outcome is `done`: `llmgw history -n 0`")
        return record
    applied = [record for record in found.records if record.outcome != REFUSED]
    if not applied:
        fix = "roll back by git instead: `git revert` the change of the catalog, then `llmgw apply`"
        raise LlmgwError("history-nothing-earlier", "the history is empty: nothing is known to go back to", fix=fix)
    present = applied[0].catalog.digest
    earlier = next((one for one in applied if one.outcome == DONE and one.catalog.digest != present), None)
    if earlier is None:
        why = "no apply of another catalog than the present one went well: nothing is known to go back to"
        raise LlmgwError("history-nothing-earlier", why, fix=_SEE)
    return earlier
