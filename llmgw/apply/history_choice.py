# SPDX-License-Identifier: Apache-2.0
"""Which apply of the history is meant: by its id or generation, or as the one to roll back to. Pure."""

from __future__ import annotations

import re
from itertools import dropwhile

from llmgw.apply.history import DONE, ROLLBACK, History, Record
from llmgw.errors import LlmgwError

_SHORTEST_ID = 4
_SEE = "see `llmgw history -n 0` for all that there are"


def choose(found: History, which: str) -> Record:
    """The apply of that id (its beginning is enough), or of that generation: of several the newest that went well,
    else the newest; where no apply began with that generation the one that published with it. Raises LlmgwError
    `history-unknown`.
    """
    by_id = [record for record in found.records if record.id == which]
    if not by_id and re.fullmatch("[0-9]{1,18}", which):
        by_id = _of_generation(found, int(which))
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


def name_of(found: History, record: Record) -> str:
    """What to call an apply by on the command line: its generation where that means this one, else its id."""
    generation = str(record.generation)
    return generation if choose(found, generation) is record else record.id


def went_well(record: Record) -> bool:
    """Whether an apply did all of what its catalog asks for: only then has that catalog served."""
    return record.outcome == DONE and not record.partly


def rollback_target(found: History, which: str | None) -> Record:
    """The apply whose catalog a rollback applies again: the one that is named, else what served before: the newest
    that went well, as a whole, with another catalog than the one that was applied last. A rollback that did not go
    well counts for nothing: the next one tries the same again, instead of going forward to what it was to undo.

    Raises LlmgwError `history-unknown`, `history-nothing-earlier`.
    """
    if which is not None:
        record = choose(found, which)
        if record.outcome != DONE:
            why = (
                f"the apply of generation {record.generation} did not go well ({record.outcome}): nothing to go back to"
            )
            raise LlmgwError("history-unknown", why, fix=_name_another(found))
        return record
    if not found.records:
        fix = "roll back by git instead: `git revert` the change of the catalog, then `llmgw apply`"
        raise LlmgwError("history-nothing-earlier", "the history is empty: nothing is known to go back to", fix=fix)
    applied = list(dropwhile(_is_vain_rollback, found.records)) or list(found.records)
    present = applied[0].catalog.digest
    earlier = next((one for one in applied if went_well(one) and one.catalog.digest != present), None)
    if earlier is None:
        why = "no apply of another catalog than the present one went well: nothing is known to go back to"
        raise LlmgwError("history-nothing-earlier", why, fix=_git_or_the_present(found, present))
    return earlier


def _of_generation(found: History, wanted: int) -> list[Record]:
    same = [record for record in found.records if record.generation == wanted]
    if same:
        return [record for record in same if record.outcome == DONE] or same
    before = [one for one in found.records if one.generation < wanted]
    last = max((one.generation for one in before), default=None)
    after = min((one.generation for one in found.records if one.generation > wanted), default=None)
    of_it = [one for one in before if one.generation == last and _may_have(one, wanted, after)]
    return [record for record in of_it if record.outcome == DONE] or of_it


def _may_have(record: Record, wanted: int, after: int | None) -> bool:
    """Whether one of the apply's bundles may have that generation; `after`: of the next apply that is known."""
    return after is not None if record.last_generation is None else wanted <= record.last_generation


def _is_vain_rollback(record: Record) -> bool:
    return record.command.startswith(ROLLBACK) and not went_well(record)


def _name_another(found: History) -> str:
    good = next(filter(went_well, found.records), None)
    if good is None:
        return f"none went well yet; {_SEE}"
    return f"the newest that went well is {name_of(found, good)}: `llmgw rollback {name_of(found, good)}`"


def _git_or_the_present(found: History, present: str) -> str:
    git = "roll back by git instead: `git revert` the change of the catalog, then `llmgw apply`"
    same = next((one for one in found.records if went_well(one) and one.catalog.digest == present), None)
    if same is None:
        return git
    again = f"to apply the present catalog again as it was kept: `llmgw rollback {name_of(found, same)}`"
    return f"{git}; {again}"
