# SPDX-License-Identifier: Apache-2.0
"""The marks of a node as text: who cordoned or drained it, when and why, and which devices are quarantined (R11)."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.cli.cells import age
from llmgw.fleet.quarantine import names_of
from llmgw.model.node import Node
from llmgw.nodekit import contract


def mark_lines(facts: contract.NodeFacts | None, seen: Node | None, now: float | None) -> Iterator[tuple[str, str]]:
    """Label and text of each mark; `now` (Unix seconds) for how long it is there. `seen` adds what variables say."""
    known = facts or contract.NodeFacts()
    for label, marked, mark, variable in (
        ("cordoned", known.cordoned, known.cordon_mark, seen is not None and seen.cordoned),
        ("drained", known.drained, known.drain_mark, seen is not None and seen.drained),
    ):
        if marked:
            yield label, (who(mark, now) or " by a mark that does not tell by whom and why").strip()
        elif variable:
            yield label, f"by its host variable llmgw_{label}"
    names = names_of(known) or {}
    for one in known.quarantined or ():
        name = f"{names[one.device]} ({one.device})" if one.device in names else one.device
        why = f": {one.message or one.code}" if one.message or one.code else ""
        yield "out", f"{name} quarantined{who(contract.NodeMark(one.by, one.since), now)}{why}"


def who(mark: contract.NodeMark | None, now: float | None) -> str:
    """` by ops@ctl1 3h ago: new kernel`, as far as the mark tells; empty when it tells nothing."""
    if mark is None:
        return ""
    by = f" by {mark.by}" if mark.by else ""
    ago = f" {age(max(0.0, now - mark.at))} ago" if mark.at is not None and now is not None else ""
    return f"{by}{ago}{f': {mark.reason}' if mark.reason else ''}"
