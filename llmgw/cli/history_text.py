# SPDX-License-Identifier: Apache-2.0
"""The history of applies for people: a table of several, one in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from llmgw.apply.history import DONE, RUNNING, Changed, Record
from llmgw.cli.table import lines_of, wrapped

_HEAD = ("WHEN (UTC)", "GEN", "WHO", "COMMAND", "OUTCOME", "WHAT")
_BREAKABLE = (2, 3, 5)
_ACTIONS_SHOWN = 40
_INDENT = "  "
_SUMMARY = "Plan: "
_LONGEST_WHO = 18
_DIGEST_SHOWN = len("sha256:") + 12
_MINUTE, _HOUR = 60, 3600


def table_lines(records: Sequence[Record], width: int | None) -> list[str]:
    """A row an apply, the newest first, no wider than `width` where that can be done; None: as wide as they are."""
    return lines_of([_HEAD, *(_row(record, narrow=width is not None) for record in records)], width, _BREAKABLE)


def record_lines(record: Record, width: int | None, *, kept: bool) -> list[str]:
    """One apply: what it was to do, how it ended, and how to go back to its catalog (`kept`: whether it is there)."""
    return list(_record(record, width or 80, kept=kept))


def _row(record: Record, *, narrow: bool) -> tuple[str, ...]:
    return (
        _when(record.began),
        str(record.generation),
        _who(record.by) if narrow else record.by,
        record.command,
        record.outcome,
        _what(record),
    )


def _who(by: str) -> str:
    """The user and the host without its domain; over two lines where that is long."""
    user, at, host = by.partition("@")
    short = f"{user}{at}{host.partition('.')[0]}"
    return short if len(short) <= _LONGEST_WHO or not at else short.replace("@", "@ ", 1)


def _what(record: Record) -> str:
    """`2 update, 1 move, 4 not rolled out`: what changed; where no replica did, the plan in its own words."""
    counts = Counter(one.kind for one in record.actions)
    words = [f"{count} {kind}" for kind, count in counts.items()]
    words += [f"{record.actions_left_out} more"] if record.actions_left_out else []
    not_done = len(record.withheld) + record.withheld_left_out
    words += [f"{not_done} not rolled out"] if not_done else []
    return ", ".join(words) or record.summary.removeprefix(_SUMMARY).removesuffix(".")


def _record(record: Record, width: int, *, kept: bool) -> Iterator[str]:
    lasted = "" if record.ended is None else f", took {_duration(record.ended - record.began)}"
    partly = ", but only partly: a service could not be rolled out" if record.partly else ""
    yield f"generation {record.generation}: {record.outcome}{partly}"
    yield f"{_INDENT}began    {_when(record.began)} UTC{lasted}"
    yield f"{_INDENT}by       {record.by}, command {record.command}"
    yield f"{_INDENT}id       {record.id}"
    path = f" {record.catalog.path}" if record.catalog.path else ""
    yield f"{_INDENT}catalog  {record.catalog.digest[:_DIGEST_SHOWN] or 'unknown'}{path}"
    yield ""
    yield from wrapped(record.summary, width)
    yield from _actions(record.actions, record.actions_left_out, _INDENT)
    yield from _actions(record.withheld, record.withheld_left_out, f"{_INDENT}not done: ")
    if not record.actions and record.waves:
        yield from (f"{_INDENT}{title}" for title in record.waves[:_ACTIONS_SHOWN])
    if record.failure:
        yield ""
        for sentence in record.failure:
            for line in sentence.splitlines() or [""]:
                yield from wrapped(line, width, _INDENT) or [""]
    yield ""
    yield from wrapped(_way_back(record, kept=kept), width)


def _actions(listed: Sequence[Changed], left_out: int, begin: str) -> Iterator[str]:
    yield from (f"{begin}{_action(one)}" for one in listed[:_ACTIONS_SHOWN])
    not_shown = max(0, len(listed) - _ACTIONS_SHOWN)
    if not_shown + left_out:
        yield f"{begin}and {not_shown + left_out} more" + (" (--json has them)" if not_shown else "")


def _way_back(record: Record, *, kept: bool) -> str:
    if not kept:
        return "Its catalog is not kept: there is no rolling back to it by llmgw; git may have it."
    if record.outcome == DONE and record.partly:
        return (
            "Since it was not rolled out as a whole, `llmgw rollback` goes back to it only where it is named: llmgw"
            f" rollback {record.generation}"
        )
    if record.outcome == DONE:
        return f"To apply its catalog again: llmgw rollback {record.generation}"
    if record.outcome == RUNNING:
        return "It is under way."
    write = f"llmgw history {record.id} --write-catalog DIR"
    return f"Only an apply that went well can be rolled back to. To look at the catalog of this one: {write}"


def _action(one: Changed) -> str:
    nodes = ", ".join(one.nodes)
    where = f"from {', '.join(one.from_nodes)} to {nodes}" if one.from_nodes else f"on {nodes}"
    return f"{one.kind} {one.replica} {where}"


def _when(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M}"


def _duration(seconds: float) -> str:
    """`12 s`, `3 min 5 s`, `2 h 10 min`."""
    whole = max(0, round(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
